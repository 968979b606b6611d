"""What clients saw, as a list of events, and what must hold of it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Kind = Literal[
    "invoke",  # a request begins; it may take several attempts
    "ok",  # an answer with vectors
    "refused",  # a 503: the client waits, and tries again
    "broken",  # the connection did: the client tries elsewhere
    "fail",  # any other status, or the client gave up
]


class Event(NamedTuple):
    request: int
    kind: Kind
    at_s: float
    gateway: str = ""
    texts: tuple[str, ...] = ()  # of `invoke`
    rows: Vectors | None = None  # [N, D], of `ok`
    tokens: int = 0  # of `ok`: what the answer says was used
    status: int = 0


@dataclass
class Verdict:
    requests: int = 0
    lost: list[str] = field(default_factory=list)  # requests without an answer, and why
    wrong: list[int] = field(default_factory=list)  # requests with another's vectors, or too few
    doubled: list[str] = field(default_factory=list)  # answered twice, or used tokens counted twice
    uncounted: list[str] = field(default_factory=list)  # answers of which no use was counted

    @property
    def holds(self) -> bool:
        return not (self.lost or self.wrong or self.doubled or self.uncounted)


def check(
    history: Sequence[Event],
    vector: Callable[[str], Vectors],
    counted: Mapping[str, int],
) -> Verdict:
    """`vector` is what a text must get, `counted` the tokens each gateway says it has answered.

    A gateway that is not in `counted` died, and its count with it.
    """
    by_request: dict[int, list[Event]] = defaultdict(list)
    for event in history:
        by_request[event.request].append(event)
    verdict = Verdict(requests=len(by_request))
    for number, events in by_request.items():
        _check_request(number, events, vector, verdict)
    _check_use(history, counted, verdict)
    return verdict


def _check_request(
    number: int, events: list[Event], vector: Callable[[str], Vectors], verdict: Verdict
) -> None:
    invoked, answers = events[0], [event for event in events if event.kind == "ok"]
    if not answers:
        last = events[-1]
        verdict.lost.append(f"request {number}: {last.kind} {last.status or ''}".rstrip())
    if len(answers) > 1:
        verdict.doubled.append(f"request {number}: {len(answers)} answers")
    expected = np.stack([vector(text) for text in invoked.texts])
    for answer in answers:
        if not _is_close(answer.rows, expected):
            verdict.wrong.append(number)


def _is_close(rows: Vectors | None, expected: Vectors) -> bool:
    if rows is None or rows.shape != expected.shape:
        return False
    return np.allclose(rows, expected, atol=1e-5)


def _check_use(history: Sequence[Event], counted: Mapping[str, int], verdict: Verdict) -> None:
    answered: Counter[str] = Counter()
    for event in history:
        if event.kind == "ok":
            answered[event.gateway] += event.tokens
    for gateway, tokens in counted.items():
        surplus = tokens - answered[gateway]
        line = f"{gateway}: {tokens} tokens counted, {answered[gateway]} answered"
        if surplus > 0:
            verdict.doubled.append(line)
        elif surplus < 0:
            verdict.uncounted.append(line)
