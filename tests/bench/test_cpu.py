"""The engine's kernels side by side: equal work, checked before it is timed."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

import bench.cpu.measure
from bench.cpu.command import main
from bench.cpu.loads import Load, loads
from bench.cpu.measure import CpuPlan, WrongVectors, measure_kernels
from bench.cpu.report import cpu_markdown
from bench.cpu.results import CpuResults
from checkpoint.find import DEFAULT_MODEL

COMMITTED = Path(__file__).parents[2] / "bench" / "results" / "cpu"
SMALL = [Load("few", "three short texts", [5, 2, 9]), Load("one", "one text", [16], repetitions=2)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.cpu.measure, "loads", lambda _: SMALL)


def plan(*kernels: str) -> CpuPlan:
    return CpuPlan(DEFAULT_MODEL, ["float32"], kernels, rounds=3)


def test_batches_hold_every_text_within_the_budget() -> None:
    for load in loads(512):
        batches = load.batches(30_522, seed=0)
        assert np.concatenate([batch.lengths for batch in batches]).tolist() == list(load.lengths)
        assert all(batch.tokens <= 2048 for batch in batches)


def test_no_text_is_longer_than_the_model_reads() -> None:
    assert all(max(load.lengths) <= 128 for load in loads(128))


@pytest.mark.usefixtures("small")
def test_each_kind_is_timed_in_every_round_and_compared_with_the_last() -> None:
    results = measure_kernels(plan("plain", "onednn"), lambda _: None)
    named = [(figure.load, figure.kernels) for figure in results.figures]
    assert named == [(load.name, name) for load in SMALL for name in ("plain", "onednn")]
    for figure in results.figures:
        assert len(figure.seconds) == 3
        assert min(figure.seconds) > 0
        assert figure.min_cosine > 0.99999
        if figure.kernels == "onednn":
            assert (figure.ratio.min, figure.ratio.max) == (1, 1)
    table = cpu_markdown(results)
    assert "| few | float32 | plain |" in table
    assert "× onednn" in table


@pytest.mark.usefixtures("small")
def test_wrong_vectors_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.cpu.measure, "MIN_COSINE", {"float32": 1.1})
    with pytest.raises(WrongVectors, match=r"plain in float32: a cosine of 1\.0"):
        measure_kernels(plan("plain"), lambda _: None)


def test_model_that_is_not_there_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--model", "/no/such/model"])
    assert "bench:" in capsys.readouterr().err


def test_committed_pages_are_those_of_their_results() -> None:
    paths = sorted(COMMITTED.glob("*.json"))
    assert paths
    for path in paths:
        results = TypeAdapter(CpuResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == cpu_markdown(results)
