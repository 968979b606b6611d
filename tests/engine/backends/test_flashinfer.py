"""FlashInfer's adapter against a fake that is bound to its signatures and computes late."""

from collections.abc import Sequence

import pytest
import torch
from attention_steps import expected, host_step, on_device, random_qkv
from fake_attention import FakeFlashInfer, LaunchingDevice, Work
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends import flashinfer
from engine.backends.backend import HostStep, Layers
from engine.backends.flashinfer import FlashInfer
from engine.device.buckets import Configuration

FULL = AttentionSpec(heads=4, kv_heads=2, head_dim=64, scale=0.2)
CAUSAL = AttentionSpec(heads=4, kv_heads=2, head_dim=64, scale=0.2, causal=True)
WINDOW = AttentionSpec(heads=4, kv_heads=2, head_dim=64, scale=0.2, causal=True, window=3)
SMALL = Configuration("embed", tokens=64, slots=8)
LARGE = Configuration("embed", tokens=128, slots=8)
LENGTHS = ([5, 1, 30], [64], [], [9] * 7, [1] * 8)  # the dummy tail takes the rest of 64


class Rig:
    """A model of one layer a mask, whose steps are launched and read in the device's order."""

    def __init__(self, *specs: AttentionSpec, kernels: str = "fa3") -> None:
        self.device = LaunchingDevice()
        self.flashinfer = FakeFlashInfer(self.device)
        self.specs, layers = specs, Layers(specs, torch.float16, self.device)
        self.backend = FlashInfer(
            kernels, layers, self.flashinfer.BatchPrefillWithRaggedKVCacheWrapper
        )
        self.qkv = random_qkv(FULL, LARGE.tokens, torch.float16)
        self.outs = [self.qkv.new_empty(LARGE.tokens, 4 * 64) for _ in specs]
        self._results: list[tuple[HostStep, list[Tensor]]] = []

    def prepare(self, configuration: Configuration, lengths: Sequence[int]) -> HostStep:
        step = host_step(self.backend, configuration, lengths)
        self.backend.prepare(step)
        return step

    def forward(self, step: HostStep) -> None:
        tokens = step.configuration.tokens
        for spec, out in zip(self.specs, self.outs, strict=True):
            self.backend.run(self.qkv[:tokens], out[:tokens], spec, on_device(step))

    def eager(self, configuration: Configuration, lengths: Sequence[int]) -> None:
        step = self.prepare(configuration, lengths)
        self.forward(step)
        self._read(step)

    def capture(self, configuration: Configuration, lengths: Sequence[int]) -> list[Work]:
        step = self.prepare(configuration, lengths)
        return self.device.captured(lambda: self.forward(step))

    def replay(self, graph: list[Work], configuration: Configuration, lengths: list[int]) -> None:
        step = self.prepare(configuration, lengths)
        self.device.replay(graph)
        self._read(step)

    def assert_all_right(self) -> None:
        """Let everything happen; each step must have computed its own lengths."""
        self.device.synchronize()
        for step, results in self._results:
            tokens = step.configuration.tokens
            for spec, result in zip(self.specs, results, strict=True):
                right = expected(self.qkv[:tokens], step, spec)
                torch.testing.assert_close(result.float(), right, atol=2e-3, rtol=2e-3)

    def _read(self, step: HostStep) -> None:
        """The copy to the host behind a step."""
        results: list[Tensor] = []
        self._results.append((step, results))
        self.device.launch(lambda: results.extend(out.clone() for out in self._of(step)))

    def _of(self, step: HostStep) -> list[Tensor]:
        return [out[: step.configuration.tokens] for out in self.outs]


@pytest.mark.parametrize("specs", [(FULL,), (CAUSAL,), (WINDOW, CAUSAL)])
@pytest.mark.parametrize("kernels", ["fa2", "fa3"])
def test_every_step_attends_within_its_own_sequences(
    specs: tuple[AttentionSpec, ...], kernels: str
) -> None:
    rig = Rig(*specs, kernels=kernels)
    for lengths in LENGTHS:
        rig.eager(SMALL, lengths)
    rig.assert_all_right()


@pytest.mark.parametrize("specs", [(FULL,), (WINDOW, CAUSAL)])
def test_replay_computes_the_lengths_that_were_prepared_before_it(
    specs: tuple[AttentionSpec, ...],
) -> None:
    rig = Rig(*specs)
    rig.eager(LARGE, [100, 20])
    graph = rig.capture(SMALL, [64])
    rig.eager(LARGE, [128])  # a bigger batch, by another wrapper on the same memory
    for lengths in LENGTHS:
        rig.replay(graph, SMALL, lengths)
    rig.assert_all_right()


def test_graph_outlives_its_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flashinfer, "_WRAPPERS", 1)
    rig = Rig(FULL)
    graph = rig.capture(SMALL, [64])
    rig.eager(LARGE, [1, 2, 3])
    rig.replay(graph, SMALL, [40, 3])
    assert len(rig.flashinfer.wrappers) == 3
    rig.assert_all_right()


def test_plan_of_a_step_in_flight_is_not_overwritten() -> None:
    rig = Rig(CAUSAL, WINDOW)
    for lengths in LENGTHS[:3]:
        rig.eager(SMALL, lengths)
    plans = [rig.flashinfer.wrappers[mask].pinned for mask in (0, 1)]
    assert len({*plans[0], *plans[1]}) == 6
    rig.assert_all_right()


def test_preparing_waits_for_nothing_while_two_steps_are_in_flight() -> None:
    rig = Rig(CAUSAL, WINDOW)
    launched = 0
    for lengths in LENGTHS[:3]:
        rig.eager(SMALL, lengths)
        assert rig.device.waiting > launched
        launched = rig.device.waiting


@pytest.fixture
def plan() -> dict[str, object]:
    """What a plan was asked for."""
    rig = Rig(WINDOW, kernels="fa2")
    rig.prepare(SMALL, [10, 20])
    return rig.flashinfer.wrappers[0].planned_with[0]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("num_qo_heads", 4),
        ("num_kv_heads", 2),
        ("head_dim_qk", 64),
        ("causal", True),
        ("window_left", 3),
        ("sm_scale", 0.2),
        ("q_data_type", torch.float16),
        ("kv_data_type", None),  # that of the queries
        ("custom_mask", None),
        ("pos_encoding_mode", "NONE"),
        ("non_blocking", True),
        ("disable_split_kv", True),
    ],
)
def test_plan_is_told(plan: dict[str, object], argument: str, value: object) -> None:
    assert plan[argument] == value


def test_plan_is_given_bfloat16_where_the_model_has_it() -> None:
    device = LaunchingDevice()
    library = FakeFlashInfer(device)
    layers = Layers((FULL,), torch.bfloat16, device)
    backend = FlashInfer("fa3", layers, library.BatchPrefillWithRaggedKVCacheWrapper)
    backend.prepare(host_step(backend, SMALL, [3]))
    assert library.wrappers[0].planned_with[0]["q_data_type"] is torch.bfloat16


def test_plan_reads_lengths_on_the_host_and_first_with_all_rows() -> None:
    rig = Rig(FULL)
    steps = [rig.prepare(SMALL, lengths) for lengths in LENGTHS[:2]]
    (wrapper,) = rig.flashinfer.wrappers
    assert wrapper.rows == SMALL.tokens
    for asked, step in zip(wrapper.planned_with, steps, strict=True):
        assert asked["qo_indptr"] is step.cu_seqlens
        assert asked["kv_indptr"] is step.cu_seqlens


def test_wrapper_is_made_for_graphs_of_one_backend() -> None:
    rig = Rig(FULL, kernels="fa2")
    rig.prepare(SMALL, [3])
    made_with = rig.flashinfer.wrappers[0].made_with
    assert made_with["backend"] == "fa2"
    assert made_with["use_cuda_graph"] is True
    assert len(made_with["qo_indptr_buf"]) == SMALL.slots + 2
    assert made_with["qo_indptr_buf"].dtype == torch.int32


def test_step_of_more_sequences_than_graphs_hold_is_computed() -> None:
    rig = Rig(FULL)
    rig.eager(Configuration("embed", tokens=128, slots=600), [1] * 128)
    rig.assert_all_right()


def test_layers_that_differ_in_nothing_share_a_plan() -> None:
    rig = Rig(FULL, AttentionSpec(heads=4, kv_heads=2, head_dim=64, scale=0.2))
    rig.eager(SMALL, [3, 4])
    assert len(rig.flashinfer.wrappers) == 1
    rig.assert_all_right()


def test_step_that_was_not_prepared_is_refused() -> None:
    rig = Rig(FULL)
    step = rig.prepare(SMALL, [3])
    rig.prepare(LARGE, [3])
    with pytest.raises(RuntimeError, match="was not prepared"):
        rig.forward(step)


def test_plan_that_fails_leaves_its_memory_to_the_next() -> None:
    rig = Rig(FULL)
    other = host_step(rig.backend, Configuration("embed", tokens=64, slots=9), [3])
    unfit = HostStep(SMALL, other.lengths, other.cu_seqlens, other.staging)
    for _ in range(4):
        with pytest.raises(ValueError, match="number of sequences"):
            rig.backend.prepare(unfit)
    rig.eager(SMALL, [3])
    rig.assert_all_right()
