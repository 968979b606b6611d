"""The checker of the fault suite finds what it is there to find."""

from dataclasses import replace

import numpy as np
import pytest
from faults.history import Event, Vectors, Verdict, check

TEXTS = ("one", "two", "three")


def vector(text: str) -> Vectors:
    return np.eye(3, dtype=np.float32)[TEXTS.index(text)]


@pytest.fixture
def history() -> list[Event]:
    """Three requests, two gateways; the last was refused once, and its connection broke once."""
    events = [Event(i, "invoke", float(i), texts=(text,)) for i, text in enumerate(TEXTS)]
    events += [Event(2, "refused", 3.0, "a", status=503), Event(2, "broken", 3.5, "a")]
    for i, gateway in enumerate(("a", "a", "b")):
        events.append(Event(i, "ok", 4.0 + i, gateway, rows=vector(TEXTS[i])[None], tokens=10))
    return events


COUNTED = {"a": 20, "b": 10}


def test_history_of_right_answers_holds(history: list[Event]) -> None:
    assert check(history, vector, COUNTED) == Verdict(requests=3)


def test_swapped_answers_are_wrong(history: list[Event]) -> None:
    first, second = history[-3], history[-2]
    history[-3:-1] = [first._replace(rows=second.rows), second._replace(rows=first.rows)]
    verdict = check(history, vector, COUNTED)
    assert verdict == Verdict(requests=3, wrong=[0, 1])
    assert not verdict.holds


def test_missing_answer_is_lost(history: list[Event]) -> None:
    missing = history.pop()
    verdict = check(history, vector, COUNTED | {"b": 0})
    assert verdict == Verdict(requests=3, lost=["request 2: broken"])
    history.append(missing._replace(kind="fail", status=500, rows=None))
    verdict = check(history, vector, COUNTED | {"b": 0})
    assert verdict == Verdict(requests=3, lost=["request 2: fail 500"])
    assert not verdict.holds


def test_doubled_answer_is_found_whether_or_not_it_was_counted(history: list[Event]) -> None:
    verdict = check([*history, history[-1]], vector, COUNTED | {"b": 20})
    assert verdict == Verdict(requests=3, doubled=["request 2: 2 answers"])
    verdict = check(history, vector, COUNTED | {"b": 20})
    assert verdict == Verdict(requests=3, doubled=["b: 20 tokens counted, 10 answered"])
    assert not verdict.holds


def test_answer_that_was_not_counted_is_found(history: list[Event]) -> None:
    verdict = check(history, vector, COUNTED | {"a": 10})
    assert verdict == Verdict(requests=3, uncounted=["a: 10 tokens counted, 20 answered"])
    assert not verdict.holds


def test_count_of_a_gateway_that_died_is_not_asked_for(history: list[Event]) -> None:
    assert check(history, vector, {"b": 10}).holds


def test_answer_with_a_row_too_few_is_wrong(history: list[Event]) -> None:
    last = history[-1]
    assert last.rows is not None
    history[-1] = last._replace(rows=last.rows[:0])
    assert check(history, vector, COUNTED).wrong == [2]
    assert replace(Verdict(requests=3), wrong=[2]).holds is False
