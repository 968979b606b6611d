"""The run from start to end, on a device whose queue runs late."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hand_clock import HandClock
from reference_attention import ReferenceAttention
from simulated_device import SimulatedDevice
from small_gpu_bench import SMALL_MODELS, CpuPeer, small_setup

from bench.gpu.parts import PARTS
from bench.gpu.parts.part import Part, Row, Rows, at_once
from bench.gpu.record import Record
from bench.gpu.run import Run
from bench.gpu.setup import Setup
from engine.attention import AttentionSpec
from engine.backends.backend import DeviceStep, HostStep

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = [shape.name for shape in SMALL_MODELS]
CLOCK = HandClock()  # stands still unless a test moves it


class Finished:
    """What a run left behind."""

    def __init__(
        self, setup: Setup, parts: list[Part], directory: Path, seconds: float = 1000
    ) -> None:
        self.said: list[str] = []
        self.record = Record(directory, self.said.append)
        Run(setup, self.record, CLOCK).measure(parts, seconds)
        setup.close()
        self.json = json.loads((directory / "gpu.json").read_text())
        self.markdown = (directory / "gpu.md").read_text()

    @property
    def states(self) -> dict[str, str]:
        return {part["name"]: part["state"] for part in self.json["parts"]}

    def rows(self, table: str) -> list[dict[str, Any]]:
        return next(part["tables"][table] for part in self.json["parts"] if table in part["tables"])


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def whole(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """All parts, as the command would run them."""
    attention = ReferenceAttention()
    setup = small_setup(checkpoints, SimulatedDevice(), attention)
    setup = replace(setup, load_peer=CpuPeer(setup.checkpoints))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.engine.Installed", lambda _: {"triton": attention})
        yield Finished(setup, list(PARTS.values()), tmp_path_factory.mktemp("out"))


@pytest.fixture
def setup(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Of one small model."""
    attention = ReferenceAttention()
    monkeypatch.setattr("engine.engine.Installed", lambda _: {"triton": attention})
    setup = small_setup(checkpoints, SimulatedDevice(), attention)
    return replace(setup, models=SMALL_MODELS[2:3])


def test_every_part_is_done_and_every_check_passes(whole: Finished) -> None:
    assert whole.states == dict.fromkeys(PARTS, "done")
    assert whole.record.faults == []


def test_every_part_is_said_when_it_ends_and_written_down(whole: Finished) -> None:
    assert [text.splitlines()[0] for text in whole.said] == [
        f"## {part.title}" for part in PARTS.values()
    ]
    assert all(text in whole.markdown for text in whole.said)


def test_every_model_has_its_rows(whole: Finished) -> None:
    for table in (
        "Replays beside launched forwards",
        "Vectors beside float32",
        "Inflection point",
        "Forwards",
        "Graphs by the order of their capture",
        "Beside sentence-transformers",
        "Four clients",
    ):
        assert list(dict.fromkeys(row["model"] for row in whole.rows(table))) == NAMES, table


def test_forwards_are_timed_launched_and_replayed(whole: Finished) -> None:
    rows = whole.rows("Forwards")
    assert {(row["load"], row["how"]) for row in rows} == {
        (load, how) for load in ("1×8", "3×8", "20×33") for how in ("launched", "replayed")
    }
    for row in rows:
        assert row["device_ms"] == pytest.approx(2.0 * row["steps"])  # an upload and a forward
        assert row["of_floor"] == pytest.approx(row["floor_ms"] / row["device_ms"])
    assert all(row["graphs"] > 0 for row in whole.rows("Graphs of the table above"))


def test_a_load_beyond_the_positions_of_a_model_is_left_out(whole: Finished) -> None:
    assert "2×321" not in {row["load"] for row in whole.rows("Forwards")}


def test_all_masks_meet_all_head_dims(whole: Finished) -> None:
    rows = whole.rows("Attention: errors")
    pairs = {(row["mask"], row["head_dim"]) for row in rows}
    masks = {row["mask"] for row in rows}
    assert len(masks) == 8
    assert pairs == {(mask, head_dim) for mask in masks for head_dim in (16, 8)}


def test_backends_that_are_missing_are_named_with_their_reason(whole: Finished) -> None:
    reasons = {row["backend"]: row["because_it"] for row in whole.rows("Attention backends")}
    assert reasons["triton"] is None
    assert reasons["fa4"] == "is not installed: it is a fake"


def test_memory_of_graphs_is_what_the_device_says(whole: Finished) -> None:
    for row in whole.rows("Graphs by the order of their capture"):
        assert row["graphs"] == 5
        assert row["memory_mib"] == 5.0


def test_peer_is_asked_for_no_more_texts_at_a_time_than_there_are(whole: Finished) -> None:
    rows = whole.rows("Beside sentence-transformers")
    assert {(row["load"], row["at_a_time"] <= 4) for row in rows} == {
        ("3×8", True),
        ("5 mixed", True),
    }
    assert all(row["min_cosine"] > 0.9999 for row in rows)


def test_nothing_is_left_on_the_device(setup: Setup, tmp_path: Path) -> None:
    device = setup.device
    assert isinstance(device, SimulatedDevice)
    Finished(setup, [PARTS[name] for name in ("attention", "products", "graphs")], tmp_path)
    assert device.captures > 0
    assert device.graphs == []
    assert device.waiting == 0


def test_peer_that_is_not_installed_is_named(setup: Setup, tmp_path: Path) -> None:
    finished = Finished(setup, [PARTS["peer"]], tmp_path)
    (row,) = finished.rows("Beside sentence-transformers")
    assert row["fault"].startswith("not installed: No module named 'sentence_transformers'")
    assert finished.record.faults == []


def test_wrong_attention_does_not_pass(setup: Setup, tmp_path: Path) -> None:
    wrong = replace(setup, installed=lambda _: {"triton": UncausalAttention()})
    finished = Finished(wrong, [PARTS["attention"]], tmp_path)
    rows = finished.rows("Attention: errors")
    assert {row["passes"] for row in rows if "causal" not in row["mask"]} == {True}
    assert {row["passes"] for row in rows if "causal" in row["mask"]} == {False}
    assert finished.record.faults


def test_backend_that_reads_its_neighbour_does_not_pass(setup: Setup, tmp_path: Path) -> None:
    wrong = replace(setup, installed=lambda _: {"triton": NeighbourlyAttention()})
    finished = Finished(wrong, [PARTS["attention"]], tmp_path)
    assert {row["passes"] for row in finished.rows("Attention: errors")} == {False}
    assert {row["max_error"] for row in finished.rows("Attention: errors")} == {"nan"}


def test_replay_with_the_lengths_of_its_capture_does_not_pass(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = StaleAttention()
    monkeypatch.setattr("engine.engine.Installed", lambda _: {"triton": stale})
    setup = replace(setup, installed=lambda _: {"triton": stale})
    finished = Finished(setup, [PARTS["agreement"]], tmp_path)
    rows = finished.rows("Replays beside launched forwards")
    passed = {row["texts"]: row["passes"] for row in rows if row["graph"] == "128 tokens, 32 texts"}
    assert passed["random, 1"] is False
    assert passed["half, and empty slots"] is False


def test_part_that_fails_does_not_keep_others_from_running(setup: Setup, tmp_path: Path) -> None:
    parts = [part("first", rows_and(ValueError("what went wrong"))), part("second", rows_and())]
    finished = Finished(setup, parts, tmp_path)
    assert finished.states == {"first": "failed", "second": "done"}
    assert len(finished.rows("first")) == 2
    assert "ValueError: what went wrong" in finished.markdown
    assert finished.record.faults == ["First: ValueError: what went wrong"]


def test_lost_device_ends_the_run(setup: Setup, tmp_path: Path) -> None:
    lost = RuntimeError("CUDA error: an illegal memory access was encountered")
    parts = [part("first", rows_and(lost)), part("second", rows_and())]
    finished = Finished(setup, parts, tmp_path)
    assert finished.states == {"first": "failed"}
    assert "illegal memory access" in finished.record.faults[0]


def test_part_beyond_its_time_is_cut_short_and_keeps_its_rows(setup: Setup, tmp_path: Path) -> None:
    parts = [part("first", rows_and(took_s=6)), part("second", rows_and(took_s=1))]
    finished = Finished(setup, parts, tmp_path, seconds=10)
    assert finished.states == {"first": "cut short", "second": "done"}
    assert len(finished.rows("first")) == 1
    assert "**cut short** after 6.0 s" in finished.markdown


def test_nothing_begins_when_no_time_is_left(setup: Setup, tmp_path: Path) -> None:
    parts = [part("first", rows_and(took_s=20)), part("second", rows_and())]
    finished = Finished(setup, parts, tmp_path, seconds=10)
    assert finished.states == {"first": "cut short", "second": "cut short"}
    assert finished.json["parts"][1]["tables"] == {}


def test_what_a_section_leaves_of_its_time_goes_to_the_next(setup: Setup, tmp_path: Path) -> None:
    took_s = (1, 4)  # each row, of which every section has two
    sections = Part("both", "Both", 1, lambda setup: [rows_and(took_s=s)(setup) for s in took_s])
    assert Finished(setup, [sections], tmp_path, seconds=10.5).states == {"both": "done"}
    assert Finished(setup, [sections], tmp_path, seconds=9.5).states == {"both": "cut short"}


def test_rows_are_on_disk_before_the_next_is_measured(setup: Setup, tmp_path: Path) -> None:
    seen = []

    def measure(_: Setup) -> Rows:
        for number in range(3):
            yield Row("numbers", {"number": number})
            (found,) = json.loads((tmp_path / "gpu.json").read_text())["parts"]
            seen.append(len(found["tables"]["numbers"]))

    Finished(setup, [part("first", measure)], tmp_path)
    assert seen == [1, 2, 3]


def test_device_lost_within_an_engine_ends_the_run(setup: Setup, tmp_path: Path) -> None:
    device = setup.device
    assert isinstance(device, SimulatedDevice)
    device.break_down()
    finished = Finished(setup, [PARTS["clients"], PARTS["graphs"]], tmp_path)
    assert finished.states == {"clients": "failed"}


def part(name: str, measure: Callable[[Setup], Rows]) -> Part:
    return Part(name, name.title(), 1, at_once(measure))


def rows_and(error: Exception | None = None, took_s: float = 0) -> Callable[[Setup], Rows]:
    """Two rows, of a table called as the part that measures first."""

    def measure(_: Setup) -> Rows:
        for number in (1, 2):
            CLOCK.now += took_s
            yield Row("first", {"number": number})
        if error is not None:
            raise error

    return measure


class UncausalAttention(ReferenceAttention):
    """Sees what is behind a token."""

    def run(self, qkv: Any, out: Any, spec: AttentionSpec, inputs: DeviceStep) -> None:
        super().run(qkv, out, replace(spec, causal=False), inputs)


class NeighbourlyAttention(ReferenceAttention):
    """Multiplies what lies beside a sequence with zero, which leaves a NaN as it is."""

    def run(self, qkv: Any, out: Any, spec: AttentionSpec, inputs: DeviceStep) -> None:
        super().run(qkv, out, spec, inputs)
        out += 0 * out.sum()


class StaleAttention(ReferenceAttention):
    """Keeps the lengths that it first saw of a configuration on the host."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Any, Any] = {}

    def staging_ints(self, configuration: Any) -> int:
        return 0

    def prepare(self, step: HostStep) -> None:
        self._seen.setdefault(step.configuration, step.cu_seqlens.clone())

    def run(self, qkv: Any, out: Any, spec: AttentionSpec, inputs: DeviceStep) -> None:
        cu_seqlens = self._seen[inputs.configuration]
        stale = DeviceStep(inputs.configuration, cu_seqlens, torch.diff(cu_seqlens))
        super().run(qkv, out, spec, stale)
