"""Peers: each at its best, in the same rounds, alone in its turn, and marked where it is wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
from fake_contender import FakeContender
from numpy.typing import NDArray

from bench.gate import CheckFailed, Reference
from bench.peers.command import measure_peers, parse
from bench.peers.compare import Field, Plan, measure_fresh, measure_load, started
from bench.peers.contender import Size
from bench.peers.loads import FRESH, FRESH_AGAIN, MIXED, Q16
from bench.peers.models import MINILM
from bench.peers.process import PeerFailed
from bench.peers.report import figures, peers_markdown
from bench.peers.results import LoadRow
from bench.peers.targets import ratio
from bench.peers.witness import Turns, Witness, work_s
from bench.texts import Texts

FRESH_TEXTS = 24  # of a pass


@dataclass(eq=False)
class Match:
    """Two contenders, one log."""

    ours: FakeContender
    peer: FakeContender
    plan: Plan
    log: list[tuple[str, Size, str]]
    told: list[str]

    @asynccontextmanager
    async def field(self) -> AsyncIterator[Field]:
        entrants = [self.ours.entrant(ours=True), self.peer.entrant()]
        async with started(entrants, self.plan) as field:
            yield field

    async def mixed(self) -> dict[str, LoadRow]:
        async with self.field() as field:
            rows = await measure_load(MIXED, field, self.plan)
        return {row.name: row for row in rows}


@pytest.fixture
def match(reference: Reference) -> Match:
    log: list[tuple[str, Size, str]] = []
    told: list[str] = []
    ours = FakeContender("ours", log, reference.vectors)
    peer = FakeContender("peer", log, reference.vectors)
    plan = Plan(MINILM, Texts("t"), "seed", 8, reference, told.append, Witness(lambda: 1.0))
    return Match(ours, peer, plan, log, told)


async def test_each_runs_at_its_best_size(match: Match) -> None:
    match.peer.seconds = {4: 5.0, 8: 4.0, 16: 3.2}
    rows = await match.mixed()
    assert (rows["ours"].size, rows["peer"].size) == ("8 texts", "16 texts")
    assert rows["ours"].swept == {"4 texts": 128.0, "8 texts": 256.0, "16 texts": 64.0}
    assert figures(rows["ours"]).median == 256.0
    assert figures(rows["peer"]).median == 80.0


@pytest.mark.parametrize(
    ("warm_s", "swept"),
    [
        (0.2, {"4 texts": 512.0, "8 texts": 640.0, "16 texts": 256.0}),  # 256 texts
        (0.4, {"4 texts": 256.0, "8 texts": 320.0, "16 texts": 128.0}),  # 128 texts
    ],
)
async def test_sweep_is_repeated_and_the_faster_counts(
    match: Match, warm_s: float, swept: dict[str, float]
) -> None:
    """Who takes long for a quarter of the texts is swept over half of them."""
    times = iter([warm_s, 1.0, 0.5, 1.2, 0.4, 2.0, 1.0])
    asked: list[list[int]] = []  # words of each text

    async def embed_s(texts: list[str], size: Size) -> float:
        asked.append(sorted(text.count(" ") for text in texts))
        return next(times, 1.0)

    match.ours.embed_s = embed_s  # type: ignore[method-assign]
    assert (await match.mixed())["ours"].swept == pytest.approx(swept)
    warm, *swept_words = asked[:7]
    assert (len(warm), len(swept_words[0])) == (64, 128 if warm_s > 0.3 else 256)
    assert all(words == swept_words[0] for words in swept_words)  # shapes that it has seen


async def test_ratio_is_of_each_round() -> None:
    ours = LoadRow("mixed", "ours", "float32", "", {}, [1.0, 1.0, 2.0])
    peer = LoadRow("mixed", "peer", "float32", "", {}, [2.0, 4.0, 3.0])
    spread = ratio(ours, peer)
    assert (spread.min, spread.median, spread.max) == (1.5, 2.0, 4.0)


async def test_rounds_hold_each_once_on_the_same_texts_in_changing_order(match: Match) -> None:
    await match.mixed()
    turns = match.log[-2 * match.plan.rounds :]
    rounds = list(zip(turns[::2], turns[1::2], strict=True))
    assert all({first[0], second[0]} == {"ours", "peer"} for first, second in rounds)
    assert all(first[2] == second[2] for first, second in rounds)
    assert {first[0] for first, _ in rounds} == {"ours", "peer"}
    assert len({first[2] for first, _ in rounds}) == len(rounds)


async def test_median_of_single_texts_counts(match: Match) -> None:
    async with match.field() as field:
        rows = await measure_load(Q16, field, match.plan)
    assert [row.rounds_s for row in rows] == [[0.002] * 8] * 2
    assert figures(rows[0]).median == pytest.approx(2.0)  # ms


async def test_only_one_is_awake_in_a_turn(match: Match) -> None:
    async with match.field() as field:
        assert not match.ours.awake
        assert not match.peer.awake
        asked = match.ours.embed_s

        async def embed_s(texts: list[str], size: Size) -> float:
            assert not match.peer.awake
            return await asked(texts, size)

        match.ours.embed_s = embed_s  # type: ignore[method-assign]
        await measure_load(MIXED, field, match.plan)
    assert len(match.log) > 2 * match.plan.rounds


def _rolled(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.roll(rows, 1, axis=0)


async def test_our_wrong_vectors_end_the_run_before_anything_is_timed(match: Match) -> None:
    match.ours.rows = _rolled(match.ours.rows)
    with pytest.raises(CheckFailed, match="ours float32: cosine"):
        await match.mixed()
    assert match.log == []


async def test_peer_with_other_vectors_is_timed_and_marked(match: Match) -> None:
    match.peer.rows = _rolled(match.peer.rows)
    async with match.field() as field:
        rows = await measure_load(MIXED, field, match.plan)
    assert [row.name for row in rows] == ["ours", "peer"]
    ours, peer = field.rows
    assert ours.same_vectors
    assert not peer.same_vectors
    assert peer.min_cosine < 0.9


@pytest.mark.parametrize("moment", ["start", "embed"])
async def test_peer_that_fails_leaves_and_the_others_go_on(match: Match, moment: str) -> None:
    match.peer.fails_at = moment
    async with match.field() as field:
        rows = await measure_load(MIXED, field, match.plan)
    assert [row.name for row in rows] == ["ours"]
    assert len(rows[0].rounds_s) == match.plan.rounds
    (reason,) = field.missing.values()
    assert any("without peer float32" in line and reason in line for line in match.told)


@pytest.mark.parametrize("moment", ["start", "embed"])
async def test_our_own_failure_ends_the_run(match: Match, moment: str) -> None:
    match.ours.fails_at = moment
    with pytest.raises(PeerFailed):
        await match.mixed()


@pytest.mark.parametrize("failure", [PeerFailed("it ended"), asyncio.CancelledError()])
async def test_run_that_ends_early_leaves_the_loads_that_were_whole(
    match: Match, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    monkeypatch.setattr("bench.peers.command.Witness", lambda: match.plan.witness)

    async def alone_s(texts: list[str]) -> list[float]:
        raise failure

    match.ours.alone_s = alone_s  # type: ignore[method-assign]
    entrants = [match.ours.entrant(ours=True), match.peer.entrant()]
    options = parse(["--loads", "mixed,q16,fresh", "--rounds", "2"])
    results = await measure_peers(options, entrants, match.told.append)
    assert set(results.loads) == {row.load for row in results.rows} == {"mixed"}
    assert results.ended == (str(failure) or "interrupted")
    assert f"NOT ALL WAS MEASURED: {results.ended}" in peers_markdown(results, "plot.svg")
    with pytest.raises(type(failure)):
        await measure_peers(replace(options, loads=("q16",)), entrants, match.told.append)


async def test_fresh_lengths_meet_an_engine_that_was_just_started(match: Match) -> None:
    entrants = [match.ours.entrant(ours=True), match.peer.entrant()]
    async with match.field() as field:
        pass
    rows = await measure_fresh(entrants, field, match.plan, rounds=3)
    assert match.ours.starts == match.peer.starts == 1 + 3
    assert [(row.name, row.load) for row in rows] == [
        (name, load) for name in ("ours", "peer") for load in (FRESH, FRESH_AGAIN)
    ]
    mean_s = sum(match.ours.alone) / FRESH_TEXTS
    assert rows[0].rounds_s == [pytest.approx(mean_s)] * 3


async def test_turn_around_which_the_machine_is_slow_is_measured_again(match: Match) -> None:
    """Looks 21 to 24 are slow: after the tenth of 16 turns, before and after it anew."""
    looks = iter([1.0] * 8 + [1.0, 1.0] * 9 + [1.0, 2.0] + [2.0, 1.0] + [1.0, 1.0] * 7)
    match.plan.witness.look = lambda: next(looks)
    rows = await match.mixed()
    assert next(looks, None) is None
    assert match.plan.witness.turns == Turns(measured=16, repeated=1, slow=0)
    timed = match.log[-(16 + 2) :]
    assert timed[9] == timed[10] == timed[11]  # the same one, on the same texts
    assert {len(row.rounds_s) for row in rows.values()} == {match.plan.rounds}


async def test_machine_that_stays_slow_is_told_and_the_run_goes_on() -> None:
    looks = iter([1.0] * 8 + [1.5] * 6 + [1.3] * 2)
    witness = Witness(lambda: next(looks))
    turns = iter(range(4))

    async def turn() -> int:
        return next(turns)

    assert [await witness.measure(turn), await witness.measure(turn)] == [2, 3]
    assert witness.turns == Turns(measured=2, repeated=1, slow=1)


def test_a_piece_of_work_takes_time() -> None:
    assert 0 < work_s() < 60
