"""A server whose answers are wrong is not timed."""

from collections.abc import Callable

import numpy as np
import pytest
from stub_embedder import StubEmbedder, Vectors

from bench.client import Client
from bench.gate import (
    CheckFailed,
    Reference,
    check_scores,
    check_vectors,
    count_special_tokens,
    min_cosine,
)


def _nearly(rows: Vectors, cosine: float) -> Vectors:
    """Unit rows turned until the cosine to what they were is as given."""
    aside = np.roll(rows, 1, axis=1)
    aside -= (aside * rows).sum(axis=1, keepdims=True) * rows
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    turned = cosine * rows + np.sqrt(1 - cosine**2) * aside
    return np.asarray(turned, np.float32)


def _with_nan(rows: Vectors) -> Vectors:
    rows = rows.copy()
    rows[-1, 0] = np.nan
    return rows


WRONG: dict[str, Callable[[Vectors], Vectors]] = {
    "turned a little too far": lambda rows: _nearly(rows, 0.9985),
    "in the order of another text": lambda rows: np.roll(rows, 1, axis=0),
    "negated": lambda rows: -rows,
    "zero": np.zeros_like,
    "not finite": _with_nan,
    "too short": lambda rows: rows[:, :-1],
    "one wrong among many": lambda rows: np.concatenate([rows[:-1], -rows[-1:]]),
    "wrong when alone": lambda rows: rows if len(rows) > 1 else -rows,
}


@pytest.mark.parametrize("distort", WRONG.values(), ids=WRONG.keys())
async def test_wrong_vectors_are_refused(
    stub: StubEmbedder, client: Client, reference: Reference, distort: Callable[[Vectors], Vectors]
) -> None:
    stub.distort = distort
    with pytest.raises(CheckFailed):
        await check_vectors(client, reference)


async def test_vectors_of_another_width_are_named_as_such(
    stub: StubEmbedder, client: Client, reference: Reference
) -> None:
    stub.distort = lambda rows: rows[:, :-1]
    with pytest.raises(CheckFailed, match=r"383 dimensions, .* have 384"):
        await check_vectors(client, reference)


@pytest.mark.parametrize(
    "distort", [lambda rows: rows, lambda rows: 3 * rows, lambda rows: _nearly(rows, 0.9995)]
)
async def test_near_vectors_pass_whatever_their_length(
    stub: StubEmbedder, client: Client, reference: Reference, distort: Callable[[Vectors], Vectors]
) -> None:
    stub.distort = distort
    check = await check_vectors(client, reference)
    assert 0.9994 < check.min_cosine <= 1 + 1e-9
    assert check.texts == len(reference.texts)


async def test_scores_are_the_cosines(
    stub: StubEmbedder, client: Client, reference: Reference
) -> None:
    await check_scores(client, reference)
    stub.distort = lambda rows: np.concatenate([rows[:1], np.roll(rows[1:], 1, axis=0)])
    with pytest.raises(CheckFailed, match="scores differ"):
        await check_scores(client, reference)


@pytest.mark.parametrize("special_tokens", [0, 2, 3])
async def test_special_tokens_are_found_from_the_servers_count(
    stub: StubEmbedder, client: Client, special_tokens: int
) -> None:
    stub.special_tokens = special_tokens
    assert await count_special_tokens(client, [16, 128]) == special_tokens


async def test_inexact_texts_are_refused(
    stub: StubEmbedder, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stub, "_tokens", lambda texts: 2 * len(texts[0].split()))
    with pytest.raises(CheckFailed, match="tokens"):
        await count_special_tokens(client, [16])


def test_committed_reference_gives_the_published_cosines(reference: Reference) -> None:
    weather, sunny, stadium = (reference.vectors[i : i + 1] for i in range(3))
    assert reference.texts[2] == "He drove to the stadium."
    assert min_cosine(weather, sunny) == pytest.approx(0.6660, abs=1e-4)
    assert min_cosine(weather, stadium) == pytest.approx(0.1046, abs=1e-4)
    assert min_cosine(sunny, stadium) == pytest.approx(0.1411, abs=1e-4)
