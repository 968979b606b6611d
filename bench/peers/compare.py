"""Every contender at its best size, in interleaved rounds: a ratio is of one round.

Never do two run at once, and a drift of the machine meets all of them alike.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.gate import Reference, min_cosine, passed
from bench.peers.results import Comparison, ContenderRow, Ratio
from bench.statistics import spread
from bench.texts import MIXED_TEXTS, Texts

Tell = Callable[[str], None]  # what is being done, for whoever waits

_SWEEPS = 2  # of which the faster counts, per size


class Contender(Protocol):
    """An engine that turns texts into vectors. `sizes`: texts at a time, to choose the best of."""

    name: str
    dtype: str
    sizes: tuple[int, ...]
    versions: dict[str, str]

    async def embed_s(self, texts: list[str], size: int) -> float: ...

    async def vectors(self, texts: list[str], size: int) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Plan:
    """`reference`: None leaves the vectors unchecked."""

    texts: Texts
    seed: str
    rounds: int
    reference: Reference | None
    tell: Tell


@dataclass(frozen=True)
class _Entry:
    """A contender that passed, with its speed in texts/s by size."""

    contender: Contender
    cosine: float | None
    swept: dict[int, float]

    @property
    def best(self) -> int:
        return max(self.swept, key=lambda size: self.swept[size])


async def compare(ours: Sequence[Contender], peers: Sequence[Contender], plan: Plan) -> Comparison:
    """Raises CheckFailed, before anything is timed, if a contender's vectors are wrong."""
    contenders = [*ours, *peers]
    cosines = [await _check(contender, plan.reference) for contender in contenders]
    entries = []
    for contender, cosine in zip(contenders, cosines, strict=True):
        plan.tell(f"peers: best size of {contender.name} ({contender.dtype})")
        entries.append(_Entry(contender, cosine, await _sweep(contender, plan.texts)))
    rounds_s = await _rounds(entries, plan)
    rows = [_row(entry, times) for entry, times in zip(entries, rounds_s, strict=True)]
    ratios = [_ratio(our, peer) for our in rows[: len(ours)] for peer in rows[len(ours) :]]
    return Comparison(MIXED_TEXTS, plan.rounds, rows, ratios)


async def _check(contender: Contender, reference: Reference | None) -> float | None:
    if reference is None:
        return None
    vectors = await contender.vectors(reference.texts, contender.sizes[0])
    return passed(reference, min_cosine(vectors, reference.vectors), contender.name).min_cosine


async def _sweep(contender: Contender, texts: Texts) -> dict[int, float]:
    """Texts/s by size."""
    await contender.embed_s(texts.mixed(), contender.sizes[-1])  # warms up
    seconds: dict[int, list[float]] = {size: [] for size in contender.sizes}
    for _ in range(_SWEEPS):
        corpus = texts.mixed()
        for size in contender.sizes:
            seconds[size].append(await contender.embed_s(corpus, size))
    return {size: MIXED_TEXTS / min(times) for size, times in seconds.items()}


async def _rounds(entries: Sequence[_Entry], plan: Plan) -> list[list[float]]:
    """Seconds for the corpus: one list an entry, one value a round."""
    order = random.Random(plan.seed)
    seconds: list[list[float]] = [[] for _ in entries]
    for number in range(1, plan.rounds + 1):
        plan.tell(f"peers: round {number} of {plan.rounds}")
        corpus = plan.texts.mixed()
        for i in sorted(range(len(entries)), key=lambda _: order.random()):
            seconds[i].append(await entries[i].contender.embed_s(corpus, entries[i].best))
    return seconds


def _row(entry: _Entry, rounds_s: list[float]) -> ContenderRow:
    return ContenderRow(
        name=entry.contender.name,
        dtype=entry.contender.dtype,
        size=entry.best,
        swept=entry.swept,
        min_cosine=entry.cosine,
        texts_per_s=spread([MIXED_TEXTS / seconds for seconds in rounds_s]),
        rounds_s=rounds_s,
        versions=entry.contender.versions,
    )


def _ratio(our: ContenderRow, peer: ContenderRow) -> Ratio:
    pairs = zip(our.rounds_s, peer.rounds_s, strict=True)
    ratios = [peer_s / our_s for our_s, peer_s in pairs]
    return Ratio(f"{our.name} ({our.dtype})", f"{peer.name} ({peer.dtype})", spread(ratios))
