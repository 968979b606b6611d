import gc
import logging
from pathlib import Path

import pytest
import torch
from simulated_device import SimulatedDevice

from engine.device.buckets import Configuration, slot_bucket, token_bucket
from engine.device.graphs import GraphLimits, Graphs, Program
from engine.device.hot_list import HotList, cold_configurations

SMALL = Configuration("embed", 64, 1)
LARGE = Configuration("embed", 512, 8)


class Model:
    """Notes what it runs, as it happens on the device."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self.ran: list[Configuration] = []
        self.blanks: list[Configuration] = []

    @property
    def program(self) -> Program:
        return Program(self.ran.append, self._upload_blank)

    def _upload_blank(self, configuration: Configuration) -> None:
        self._device.run(lambda: self.blanks.append(configuration))


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice()


@pytest.fixture
def model(device: SimulatedDevice) -> Model:
    return Model(device)


def graphs_of(
    device: SimulatedDevice,
    model: Model,
    limits: GraphLimits | None = None,
    hot: HotList | None = None,
) -> Graphs:
    limits = limits or GraphLimits(max_tokens=8192)
    return Graphs(device.graph_pool(), device, model.program, limits, hot)


def step(graphs: Graphs, configuration: Configuration) -> str:
    launched = graphs.launch(configuration)
    graphs.after_step(configuration)
    return launched


def test_first_use_is_eager_second_captures_third_replays(
    device: SimulatedDevice, model: Model
) -> None:
    graphs = graphs_of(device, model)
    assert step(graphs, SMALL) == "eager"
    assert device.captures == 0
    assert step(graphs, SMALL) == "eager"
    assert device.captures == 1
    assert step(graphs, SMALL) == "replay"
    device.synchronize()
    assert model.ran == [SMALL, SMALL, SMALL]
    assert device.captures == 1
    assert (graphs.stats.eager, graphs.stats.replays) == (2, 1)
    assert (graphs.stats.captures, graphs.stats.count) == (1, 1)


def test_configurations_are_counted_apart(device: SimulatedDevice, model: Model) -> None:
    graphs = graphs_of(device, model)
    others = [
        SMALL,
        Configuration("score", 64, 1),
        Configuration("embed", 128, 1),
        Configuration("embed", 64, 8),
        Configuration("embed", 64, 1, max_seqlen=64),
    ]
    assert [step(graphs, other) for other in others] == ["eager"] * 5
    assert device.captures == 0


def test_capture_waits_for_nothing_while_steps_are_in_flight(
    device: SimulatedDevice, model: Model
) -> None:
    graphs = graphs_of(device, model)
    step(graphs, LARGE)
    step(graphs, SMALL)
    step(graphs, SMALL)
    assert device.captures == 1
    assert model.ran == []
    assert device.waiting == 3
    device.synchronize()
    assert model.ran == [LARGE, SMALL, SMALL]  # the capture itself ran nothing


def test_capture_is_left_alone(device: SimulatedDevice, model: Model) -> None:
    collects: list[bool] = []
    refused: list[str] = []

    def disturb() -> None:
        collects.append(gc.isenabled())
        deeds = [lambda: device.pinned(64), device.synchronize, device.event().record]
        deeds.append(lambda: device.graph_pool().graph().capture(lambda: None))
        for deed in deeds:
            with pytest.raises(RuntimeError, match="not permitted") as refusal:
                deed()
            refused.append(str(refusal.value))

    device.during_capture = disturb
    graphs = graphs_of(device, model)
    step(graphs, SMALL)
    step(graphs, SMALL)
    assert collects == [False]
    assert len(refused) == 4
    assert gc.isenabled()
    assert step(graphs, SMALL) == "replay"


def test_failed_capture_leaves_the_configuration_eager(
    device: SimulatedDevice, model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    device.failing_captures = 1
    graphs = graphs_of(device, model)
    with caplog.at_level(logging.WARNING):
        assert [step(graphs, SMALL) for _ in range(5)] == ["eager"] * 5
    assert len(caplog.records) == 1
    assert "tokens=64" in caplog.text
    assert (graphs.stats.failed, graphs.stats.captures, graphs.stats.bytes) == (1, 0, 0)
    assert [step(graphs, LARGE) for _ in range(3)] == ["eager", "eager", "replay"]
    device.synchronize()
    assert model.ran == [SMALL] * 5 + [LARGE] * 3


def test_graph_not_used_for_longest_is_evicted_and_starts_over(
    device: SimulatedDevice, model: Model
) -> None:
    graphs = graphs_of(device, model, GraphLimits(max_tokens=8192, max_count=2))
    third = Configuration("embed", 1024, 8)
    for configuration in (SMALL, SMALL, LARGE, LARGE, SMALL):  # SMALL is used last
        step(graphs, configuration)
    for _ in range(2):
        step(graphs, third)
    assert (graphs.stats.count, graphs.stats.evictions) == (2, 1)
    assert step(graphs, SMALL) == "replay"
    assert [step(graphs, LARGE) for _ in range(3)] == ["eager", "eager", "replay"]


def test_evicted_graph_is_reset_only_after_its_last_replay(
    device: SimulatedDevice, model: Model
) -> None:
    graphs = graphs_of(device, model, GraphLimits(max_tokens=8192, max_count=1))
    for _ in range(3):
        step(graphs, SMALL)
    for _ in range(2):
        step(graphs, LARGE)  # evicts SMALL, whose replay the device has not come to
    assert len(device.graphs) == 2
    step(graphs, LARGE)
    assert len(device.graphs) == 2
    device.synchronize()
    step(graphs, LARGE)
    assert len(device.graphs) == 1
    assert graphs.stats.bytes == device.graph_bytes
    device.synchronize()
    assert model.ran == [SMALL] * 3 + [LARGE] * 4


def test_bytes_of_graphs_are_measured(device: SimulatedDevice, model: Model) -> None:
    graphs = graphs_of(device, model)
    for configuration in (SMALL, SMALL, LARGE, LARGE):
        step(graphs, configuration)
    assert graphs.stats.bytes == 2 * device.graph_bytes


def test_nothing_is_captured_above_the_inflection_point(
    device: SimulatedDevice, model: Model
) -> None:
    graphs = graphs_of(device, model, GraphLimits(max_tokens=1024))
    exact, graphable = graphs.configure("embed", 1025, 3)
    assert (exact, graphable) == (Configuration("embed", 1025, 3), False)
    for configuration in (exact, Configuration("embed", 1152, 8)):
        assert [step(graphs, configuration) for _ in range(4)] == ["eager"] * 4
    assert device.captures == 0


def test_more_rows_than_slots_run_exact_and_eager(device: SimulatedDevice, model: Model) -> None:
    graphs = graphs_of(device, model)
    exact, graphable = graphs.configure("embed", 640, 513)
    assert (exact, graphable) == (Configuration("embed", 640, 513), False)
    assert [step(graphs, exact) for _ in range(4)] == ["eager"] * 4
    assert device.captures == 0


@pytest.mark.parametrize(("tokens", "rows"), [(1, 1), (64, 1), (65, 2), (8192, 512), (700, 33)])
def test_padded_configuration_fits_and_is_captured(
    device: SimulatedDevice, model: Model, tokens: int, rows: int
) -> None:
    graphs = graphs_of(device, model)
    configuration, graphable = graphs.configure("embed", tokens, rows)
    assert graphable
    assert configuration.tokens == token_bucket(tokens)
    assert configuration.slots == slot_bucket(rows)
    assert [step(graphs, configuration) for _ in range(3)][-1] == "replay"


def test_bound_of_lengths_covers_the_dummy_tail(device: SimulatedDevice, model: Model) -> None:
    graphs = graphs_of(device, model)
    padded, _ = graphs.configure("embed", 1025, 200, max_seqlen=8)  # a tail of 127 tokens
    assert padded.max_seqlen == 128
    assert graphs.configure("embed", 1024, 4, max_seqlen=300)[0].max_seqlen == 512
    assert graphs.configure("embed", 9000, 30, max_seqlen=300)[0].max_seqlen == 300


def test_primed_graph_replays_at_once_and_is_never_evicted(
    device: SimulatedDevice, model: Model
) -> None:
    graphs = graphs_of(device, model, GraphLimits(max_tokens=8192, max_count=1))
    assert graphs.prime(LARGE)
    assert step(graphs, LARGE) == "replay"
    assert [step(graphs, SMALL) for _ in range(4)] == ["eager"] * 4
    assert step(graphs, LARGE) == "replay"
    device.synchronize()
    assert model.blanks == [LARGE]
    assert model.ran[:2] == [LARGE, LARGE]  # the warm-up, then the replay


def test_priming_raises_what_the_forward_raises(device: SimulatedDevice, model: Model) -> None:
    graphs = graphs_of(device, model)
    device.run_out_of_memory()
    with pytest.raises(torch.OutOfMemoryError):
        graphs.prime(LARGE)


def test_forward_that_fails_counts_as_no_use(device: SimulatedDevice, model: Model) -> None:
    graphs = graphs_of(device, model)
    step(graphs, SMALL)
    device.run_out_of_memory()
    with pytest.raises(torch.OutOfMemoryError):
        graphs.launch(SMALL)
    assert device.captures == 0
    assert [step(graphs, SMALL) for _ in range(2)] == ["eager", "replay"]


def remembering(path: Path, uses: dict[Configuration, int]) -> HotList:
    """The list of a process that starts again after one with these uses."""
    before = HotList(path, "model")
    for configuration, count in uses.items():
        for _ in range(count):
            before.count(configuration)
    before.save()
    return HotList(path, "model")


def test_restart_captures_what_was_hot_in_idle_time_hottest_first(
    device: SimulatedDevice, model: Model, tmp_path: Path
) -> None:
    hot = remembering(tmp_path / "graphs.json", {SMALL: 4, LARGE: 9})
    graphs = graphs_of(device, model, hot=hot)
    assert graphs.idle()
    assert graphs.stats.count == 1
    assert step(graphs, LARGE) == "replay"
    assert graphs.idle()
    assert not graphs.idle()
    assert step(graphs, SMALL) == "replay"
    device.synchronize()
    assert model.blanks == [LARGE, SMALL]  # warmed up with dummy tokens, never with old inputs


def test_what_requests_captured_meanwhile_is_not_captured_again(
    device: SimulatedDevice, model: Model, tmp_path: Path
) -> None:
    hot = remembering(tmp_path / "graphs.json", {SMALL: 4})
    graphs = graphs_of(device, model, hot=hot)
    assert [step(graphs, SMALL) for _ in range(3)] == ["eager", "eager", "replay"]
    assert not graphs.idle()
    assert device.captures == 1


def test_idle_capture_fails_without_an_error_and_once(
    device: SimulatedDevice, model: Model, tmp_path: Path
) -> None:
    hot = remembering(tmp_path / "graphs.json", {SMALL: 4, LARGE: 9})
    graphs = graphs_of(device, model, hot=hot)
    device.run_out_of_memory()
    assert graphs.idle()
    device.failing_captures = 1
    assert graphs.idle()
    assert not graphs.idle()
    assert graphs.stats.failed == 2
    assert [step(graphs, SMALL) for _ in range(3)] == ["eager"] * 3


def test_idle_captures_evict_nothing(device: SimulatedDevice, model: Model, tmp_path: Path) -> None:
    hot = remembering(tmp_path / "graphs.json", {SMALL: 4})
    graphs = graphs_of(device, model, GraphLimits(max_tokens=8192, max_count=1), hot)
    graphs.prime(LARGE)
    assert not graphs.idle()
    assert step(graphs, LARGE) == "replay"


def test_remembered_configuration_that_no_longer_fits_is_passed_over(
    device: SimulatedDevice, model: Model, tmp_path: Path
) -> None:
    hot = remembering(tmp_path / "graphs.json", {LARGE: 4, SMALL: 3})
    graphs = graphs_of(device, model, GraphLimits(max_tokens=256), hot)
    assert graphs.idle()
    assert not graphs.idle()
    device.synchronize()
    assert model.ran == [SMALL]


def test_cold_start_captures_single_texts(
    device: SimulatedDevice, model: Model, tmp_path: Path
) -> None:
    hot = HotList(tmp_path / "graphs.json", "model", cold_configurations("embed"))
    graphs = graphs_of(device, model, hot=hot)
    while graphs.idle():
        pass
    device.synchronize()
    assert [(key.tokens, key.slots) for key in model.ran] == [(64, 1), (128, 1), (256, 1), (512, 1)]


def test_uses_are_remembered_without_a_farewell(
    device: SimulatedDevice, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "graphs.json"
    graphs = graphs_of(device, model, hot=HotList(path, "model"))
    for _ in range(1000):
        step(graphs, SMALL)
    assert not graphs.idle()
    assert HotList(path, "model").hottest() == [SMALL]
