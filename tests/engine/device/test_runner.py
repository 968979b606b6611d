"""A whole model on a device: the rows are those of a CPU, whatever runs behind the step."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_attention import ReferenceAttention
from sequences import batch_of, random_sequences
from simulated_device import SimulatedDevice
from tiny_checkpoint import TinyCheckpoint
from torch.utils._python_dispatch import TorchDispatchMode

from engine.batch import Batch
from engine.device.buckets import Configuration
from engine.engine import Engine, EngineConfig
from engine.errors import DeviceLost, EngineError, OutOfMemory
from engine.lazy import StepOutput

TINY = TinyCheckpoint()
BROKEN_ID = 96  # its embedding is not a number
Load = Callable[..., Engine]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    tensors = TINY.tensors()
    tensors["embeddings.word_embeddings.weight"][BROKEN_ID] = np.nan
    TINY.write(directory, tensors)
    return directory


@pytest.fixture
def attention() -> ReferenceAttention:
    return ReferenceAttention()


@pytest.fixture
def device() -> SimulatedDevice:
    device = SimulatedDevice()
    device.work_s = 0.0  # launching takes longer, so that every total up to the budget has a graph
    return device


@pytest.fixture
def load(
    directory: Path,
    device: SimulatedDevice,
    attention: ReferenceAttention,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Load]:
    monkeypatch.setattr("engine.engine.Installed", lambda _: {"triton": attention})
    loaded = []

    def load(on: SimulatedDevice = device, **config: Any) -> Engine:
        settings = {"dtype": "float32", "kernels": "plain", "max_batch_tokens": 512} | config
        files = TINY.files(directory)
        loaded.append(Engine.load(TINY.spec(), files, EngineConfig(**settings), device=on))
        return loaded[-1]

    yield load
    for engine in loaded:
        engine.close()


@pytest.fixture(scope="module")
def on_cpu(directory: Path) -> Callable[[Batch], np.ndarray]:
    config = EngineConfig(device="cpu", dtype="float32", kernels="plain")
    engine = Engine.load(TINY.spec(), TINY.files(directory), config)
    return lambda batch: engine.step(batch).wait().rows


def batch(*lengths: int, seed: int = 0) -> Batch:
    return batch_of(random_sequences(lengths, BROKEN_ID, seed))


def run(engine: Engine, batch: Batch) -> StepOutput:
    return engine.step(batch).wait()


def assert_close(rows: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(rows, expected, atol=2e-5)


def test_first_and_second_step_are_launched_and_the_third_is_replayed(
    load: Load, on_cpu: Any
) -> None:
    engine, launches = load(), []
    for seed in range(5):
        step = batch(7, 30, 1, seed=seed)
        output = run(engine, step)
        launches.append(output.launch)
        assert_close(output.rows, on_cpu(step))
    assert launches == ["eager", "eager", "replay", "replay", "replay"]


def test_replay_reads_no_length_of_another_step(load: Load, on_cpu: Any) -> None:
    """The same graph with one token, with as many as fit, with most slots empty, and after more."""
    engine = load()
    shapes = [(64,), (1,), (63,), (33, 31), (1, 1, 1, 1, 1, 1, 1, 1), (2, 60), (57, 1, 1, 5)]
    random = np.random.default_rng(0)
    replays = 0
    for seed, index in enumerate(random.integers(0, len(shapes), 40)):
        step = batch(*shapes[index], seed=seed)
        if seed % 7 == 3:
            big = batch(300, 150, 50, seed=seed)
            assert_close(run(engine, big).rows, on_cpu(big))
        output = run(engine, step)
        replays += output.launch == "replay"
        assert_close(output.rows, on_cpu(step))
    assert replays > 30


def test_two_steps_in_flight_keep_their_inputs_and_rows_apart(
    load: Load, device: SimulatedDevice, on_cpu: Any
) -> None:
    engine = load()
    for first, second in (
        ((40, 3), (9, 50)),
        ((40, 3), (9, 50)),
        ((5,), (300, 100)),
        ((64,), (1,)),
    ):
        one, other = batch(*first, seed=1), batch(*second, seed=2)
        with device.held():
            lazy = engine.step(one), engine.step(other)
            assert not lazy[0].ready()
            assert not lazy[1].ready()
        assert_close(lazy[0].wait().rows, on_cpu(one))
        assert_close(lazy[1].wait().rows, on_cpu(other))


def test_steps_in_flight_download_to_places_of_their_own(
    load: Load, device: SimulatedDevice, on_cpu: Any
) -> None:
    """Both are done before the rows of the first are read."""
    engine = load()
    for _ in range(3):
        one, other = batch(40, 3, seed=1), batch(9, 50, seed=2)
        with device.held():
            lazy = engine.step(one), engine.step(other)
            device.advance()
        assert_close(lazy[0].wait().rows, on_cpu(one))
        assert_close(lazy[1].wait().rows, on_cpu(other))


def test_rows_stay_as_they_are_while_later_steps_run(load: Load, on_cpu: Any) -> None:
    engine, first = load(), batch(40, 3)
    rows = run(engine, first).rows
    for seed in range(1, 9):
        run(engine, batch(40, 3, seed=seed))
    assert_close(rows, on_cpu(first))


def test_capture_begins_when_the_step_is_followed(load: Load, device: SimulatedDevice) -> None:
    """Everything of the step is enqueued by then, its download and its event too."""
    engine, step = load(), batch(7, 30)
    run(engine, step)
    captures = device.captures
    with device.held():
        lazy = engine.step(step)
        assert device.captures == captures
        waiting = device.waiting
        engine.after_step()
        assert (device.captures, device.waiting) == (captures + 1, waiting)
    lazy.wait()
    assert run(engine, step).launch == "replay"


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(budget=st.integers(1, 700))
def test_every_budget_starts_and_serves(load: Load, on_cpu: Any, budget: int) -> None:
    device = SimulatedDevice()
    device.work_s = 0.0
    engine = load(device, max_batch_tokens=budget)
    for step in (batch(min(budget, 320)), batch(*[1] * min(budget, 600)), batch(320)):
        assert_close(run(engine, step).rows, on_cpu(step))


def test_largest_step_of_each_kind_runs_before_serving(
    load: Load, attention: ReferenceAttention
) -> None:
    load(max_batch_tokens=640)
    assert max(configuration.tokens for configuration in attention.prepared) == 640
    assert [c.tokens for c in attention.prepared[:1]] == [640]


def test_largest_graph_is_captured_first(load: Load, attention: ReferenceAttention) -> None:
    load(max_batch_tokens=640)
    last = attention.prepared[-1]
    assert (last.tokens, last.slots) == (640, 512)


def test_short_totals_are_warm_before_serving(load: Load, attention: ReferenceAttention) -> None:
    load(max_batch_tokens=512, graphs=False)
    ran = {configuration.tokens for configuration in attention.prepared}
    assert ran >= {64, 128, 192, 256, 320, 384, 448, 512}


def test_launching_is_measured_behind_other_work(load: Load, attention: ReferenceAttention) -> None:
    device = SimulatedDevice()
    device.work_s = 10.0
    load(device, max_batch_tokens=512)
    ran = [configuration.tokens for configuration in attention.prepared]
    triples = zip(ran, ran[1:], ran[2:], strict=False)
    # What is measured comes behind what keeps the device busy, here the least total.
    assert any(first == last > 64 and busy == 64 for first, busy, last in triples)


@pytest.mark.parametrize("what", ["upload", "forward", "download"])
def test_step_that_fails_anywhere_leaves_nothing_taken(
    what: str, load: Load, device: SimulatedDevice, on_cpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, step = load(graphs=False), batch(40, 3)
    run(engine, step)
    nth, calls, pinned = ["upload", "forward", "download"].index(what), [], device.pinned_blocks
    original = SimulatedDevice.run

    def fail(self: SimulatedDevice, work: Any) -> None:
        calls.append(work)
        if len(calls) == nth + 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        original(self, work)

    for _ in range(5):
        calls.clear()
        monkeypatch.setattr(SimulatedDevice, "run", fail)
        with pytest.raises(OutOfMemory):
            run(engine, step)
        monkeypatch.setattr(SimulatedDevice, "run", original)
        assert_close(run(engine, step).rows, on_cpu(step))
    assert device.pinned_blocks == pinned
    assert device.releases >= 5


def test_device_that_is_lost_in_idle_time_is_told(
    load: Load, device: SimulatedDevice, tmp_path: Path
) -> None:
    engine = load(graph_cache=tmp_path / "graphs.json")
    device.refuse_next_run(RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(DeviceLost):
        engine.idle()


def test_memory_that_is_short_in_idle_time_is_given_back_and_the_graph_comes_later(
    load: Load, device: SimulatedDevice, tmp_path: Path
) -> None:
    engine = load(graph_cache=tmp_path / "graphs.json")
    releases = device.releases
    device.run_out_of_memory()
    assert engine.idle()  # 64 tokens of one text, the first of the cold list
    assert device.releases == releases + 1
    launches = [run(engine, batch(60)).launch for _ in range(120)]
    assert launches[0] == "eager"
    assert launches[-1] == "replay"


def test_weights_are_there_before_anything_runs(load: Load, monkeypatch: Any) -> None:
    order: list[str] = []

    class Noting(SimulatedDevice):
        def synchronize(self) -> None:
            order.append("synchronized")
            super().synchronize()

        def run(self, work: Any) -> None:
            order.append("ran")
            super().run(work)

    load(Noting())
    assert order[0] == "synchronized"


def test_forward_does_nothing_that_a_capture_forbids(load: Load, monkeypatch: Any) -> None:
    """The simulated capture runs nothing, so the forward is run as if it were within one."""
    engine = load()
    runner: Any = engine._runner
    configuration = Configuration("embed", 64, 8)
    monkeypatch.setattr(ReferenceAttention, "run", lambda *_: None)  # it reads lengths
    runner._program.upload_blank(configuration)
    runner._device.synchronize()
    with runner._device.capturing(), NoHostValues():
        runner._program.forward(configuration)


class NoHostValues(TorchDispatchMode):
    """Raises where a value of the device is read by the host: a graph would keep the first one."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero"), name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lengths", [(300, 212), (200, 200, 200), (1,) * 600, (320,)])
def test_what_no_graph_is_for_runs_as_it_is(
    lengths: tuple[int, ...], load: Load, on_cpu: Any
) -> None:
    engine = load(max_batch_tokens=256)  # a longer sequence has up to 320
    step = batch(*lengths)
    if step.tokens > 320:
        with pytest.raises(EngineError, match="steps have 320 at most"):
            run(engine, step)
        engine = load(max_batch_tokens=640, graphs=False)
    for _ in range(3):
        output = run(engine, step)
        assert (output.launch, output.padded_tokens) == ("eager", 0)
        assert_close(output.rows, on_cpu(step))


def test_spans_share_graphs_with_whole_sequences(load: Load, on_cpu: Any) -> None:
    engine, plain = load(), batch(20, 30)
    spans = np.array([(0, 0, 3), (0, 3, 20), (1, 29, 30)], np.int32)
    spanned = Batch("embed", plain.input_ids, plain.lengths, spans=spans)
    for step in (plain, spanned, spanned, plain):
        output = run(engine, step)
        assert_close(output.rows, on_cpu(step))
    assert output.launch == "replay"
    offsets = run(engine, spanned).row_offsets
    assert offsets is not None
    assert offsets.tolist() == [0, 2, 3]


def test_more_spans_than_slots_run_as_they_are(load: Load, on_cpu: Any) -> None:
    plain = batch(300, 300)
    spans = np.array([(s, p, p + 1) for s in range(2) for p in range(300)], np.int32)
    step = Batch("embed", plain.input_ids, plain.lengths, spans=spans)
    engine = load(max_batch_tokens=640)
    output = run(engine, step)
    assert output.launch == "eager"
    assert_close(output.rows, on_cpu(step))
    twice = np.repeat(spans, 2, axis=0)
    with pytest.raises(EngineError, match="1200 spans; steps have 640 at most"):
        run(engine, Batch("embed", plain.input_ids, plain.lengths, spans=twice))


def test_sequence_that_is_not_finite_is_told_by_the_device(load: Load, on_cpu: Any) -> None:
    engine, step = load(), batch(5, 20, 9)
    healthy = on_cpu(step)
    step.input_ids[7] = BROKEN_ID
    for _ in range(3):
        output = run(engine, step)
        assert output.finite.tolist() == [True, False, True]
        assert_close(output.rows[[0, 2]], healthy[[0, 2]])


def test_step_that_memory_is_too_small_for_costs_itself_alone(
    load: Load, device: SimulatedDevice, on_cpu: Any
) -> None:
    engine, step = load(), batch(40, 3)
    run(engine, step)
    releases = device.releases
    device.run_out_of_memory()
    with pytest.raises(OutOfMemory, match="CUDA out of memory"):
        run(engine, step)
    assert device.releases == releases + 1
    for _ in range(3):
        assert_close(run(engine, step).rows, on_cpu(step))


def test_broken_device_is_lost_for_every_step(load: Load, device: SimulatedDevice) -> None:
    engine = load()
    device.break_down()
    with pytest.raises(DeviceLost, match=r"illegal memory access was encountered$"):
        run(engine, batch(5))


def test_capture_that_fails_leaves_steps_as_they_were(
    load: Load, device: SimulatedDevice, on_cpu: Any
) -> None:
    engine, step = load(), batch(7, 30)
    device.failing_captures = 1
    for _ in range(4):
        output = run(engine, step)
        assert output.launch == "eager"
        assert_close(output.rows, on_cpu(step))
    stats = engine.stats()
    assert stats is not None
    assert stats.failed_captures == 1


def test_start_without_the_memory_of_a_largest_step_says_so(load: Load) -> None:
    class Small(SimulatedDevice):
        def run(self, work: Any) -> None:
            super().run(work)
            self.run_out_of_memory()

    with pytest.raises(
        EngineError, match=r"1\.0 of 1\.0 GiB free .* of 512 tokens; lower max_batch"
    ):
        load(Small())


def test_graphs_are_captured_up_to_the_measured_total_alone(load: Load, on_cpu: Any) -> None:
    slow = SimulatedDevice()
    slow.work_s = 10.0  # the device takes longer than any launch, whatever the total
    engine = load(slow)
    assert engine.runtime["graph_max_tokens"] == 64
    for tokens, launch, padded in ((60, "replay", 4), (65, "eager", 0)):
        step = batch(tokens)
        for _ in range(3):
            output = run(engine, step)
        assert (output.launch, output.padded_tokens) == (launch, padded)
        assert_close(output.rows, on_cpu(step))


def test_graphs_can_be_switched_off(load: Load, device: SimulatedDevice) -> None:
    engine = load(graphs=False)
    for _ in range(4):
        assert run(engine, batch(9, 3)).launch == "eager"
    assert device.captures == 0
    assert not engine.idle()


def test_idle_time_is_used_until_nothing_hot_is_left(
    load: Load, tmp_path: Path, on_cpu: Any
) -> None:
    path, hot, rare = tmp_path / "graphs.json", batch(100, 50, 30), batch(300)
    engine = load(graph_cache=path)
    for _ in range(5):
        run(engine, hot)
    for _ in range(2):
        run(engine, rare)
    engine.close()
    device = SimulatedDevice()
    device.work_s = 0.0
    restarted = load(device, graph_cache=path)
    primed = device.captures
    pieces = 0
    while restarted.idle():
        pieces += 1
        if pieces == 1:  # hottest first
            assert run(restarted, hot).launch == "replay"
            assert run(restarted, rare).launch == "eager"
    assert (pieces, device.captures - primed) == (2, 2)
    for step in (hot, rare):
        output = run(restarted, step)
        assert output.launch == "replay"
        assert_close(output.rows, on_cpu(step))


def test_model_that_never_ran_here_has_graphs_for_short_queries_first(
    load: Load, tmp_path: Path
) -> None:
    engine = load(graph_cache=tmp_path / "graphs.json")
    while engine.idle():
        pass
    for tokens, launch in ((3, "replay"), (128, "replay"), (250, "replay"), (130, "eager")):
        assert run(engine, batch(tokens)).launch == launch


def test_attention_that_bakes_a_bound_in_is_told_it(
    load: Load, attention: ReferenceAttention, on_cpu: Any
) -> None:
    attention.bakes_max_seqlen = True
    engine = load()
    for lengths in ((5, 5), (60,), (100, 2), (40, 40), (128,)) * 3:
        step = batch(*lengths)
        assert_close(run(engine, step).rows, on_cpu(step))
    bounds = {c.max_seqlen for c in attention.prepared if c.kind == "embed"}
    assert {64, 128} <= bounds


def test_every_step_is_prepared_with_its_lengths(load: Load, attention: ReferenceAttention) -> None:
    engine = load()
    before = len(attention.prepared)
    for _ in range(5):
        run(engine, batch(7, 30))
    prepared = attention.prepared[before:]
    assert [(c.tokens, c.slots) for c in prepared] == [(64, 8)] * 5


def test_what_computes_is_told(load: Load) -> None:
    engine = load()
    assert engine.device == "simulated:0"
    assert engine.runtime["attention"] == "triton"
    assert engine.runtime["kernels"] == "plain"
    assert engine.runtime["graph_max_tokens"] == 512
    stats = engine.stats()
    assert stats is not None
    assert (stats.graphs, stats.captures, stats.graph_bytes) == (1, 1, 1 << 20)
    assert stats.used_bytes == 1 << 20


def test_shards_are_smaller_than_batches_on_a_device(load: Load) -> None:
    engine = load(max_batch_tokens=16_384, graphs=False)
    assert (engine.max_batch_tokens, engine.shard_tokens) == (16_384, 8192)
    assert load(graphs=False).shard_tokens == 512


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("fa4", "attention backend 'fa4' is not installed"), ("fa5", "'fa5' is not known: auto, ")],
)
def test_attention_that_was_asked_for_must_be_there(wanted: str, message: str, load: Load) -> None:
    with pytest.raises(EngineError, match=message):
        load(attention_backend=wanted)


def test_kernels_of_a_cpu_are_not_for_a_device(load: Load) -> None:
    with pytest.raises(EngineError, match="'onednn' are not for simulated:0: auto, fused or plain"):
        load(kernels="onednn")


def test_weights_that_do_not_fit_are_told(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nadvice")

    monkeypatch.setattr("engine.weights.Weights.take", take)
    with pytest.raises(EngineError, match=r"simulated:0 has too little memory .* 2 GiB\.$"):
        load()
