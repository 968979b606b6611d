"""Which backend a model's steps run on."""

import re
from dataclasses import dataclass

import pytest
import torch
from attention_steps import host_step, on_device
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import Caps, DeviceStep, HostStep
from engine.backends.choice import NAMES, Preference, choose
from engine.backends.flash_attention_4 import FlashAttention4
from engine.backends.flashinfer import FlashInfer
from engine.backends.triton import TritonAttention
from engine.backends.varlen import VarlenAttention
from engine.device.buckets import SLOTS, TOKEN_BUCKETS, Configuration
from engine.errors import EngineError

CAPS = {
    "triton": TritonAttention.caps,
    "fa4": FlashAttention4.caps,
    "varlen": VarlenAttention.caps,
    "flashinfer-fa3": FlashInfer.caps,
    "flashinfer-fa2": FlashInfer.caps,
}


@dataclass(eq=False)
class Recorder:
    """A backend that writes its name's length where it may, and remembers what it ran."""

    name: str
    caps: Caps
    bakes_max_seqlen: bool = False

    def __post_init__(self) -> None:
        self.ran: list[AttentionSpec] = []

    def staging_ints(self, configuration: Configuration) -> int:
        return len(self.name)

    def prepare(self, step: HostStep) -> None:
        step.staging[:] = len(self.name)

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        assert inputs.staging.tolist() == [len(self.name)] * len(self.name)
        self.ran.append(spec)


def installed(*names: str) -> dict[str, Recorder | str]:
    missing = dict.fromkeys(NAMES, "is not installed")
    return {**missing, **{name: Recorder(name, CAPS[name]) for name in names}}


def spec(head_dim: int = 128, **mask: object) -> AttentionSpec:
    return AttentionSpec(heads=2, kv_heads=1, head_dim=head_dim, scale=0.1, **mask)


def chosen(specs: list[AttentionSpec], *names: str) -> Preference:
    return choose(specs, torch.bfloat16, installed(*names))


BIAS, SLOPES = torch.zeros(2, 9), torch.zeros(2)
SHORT, LONG = (512, 8), (32_768, 8)  # tokens and slots: 64 and 4,096 tokens a sequence


@pytest.mark.parametrize(
    ("attention", "shape", "order"),
    [
        (spec(), LONG, ["fa4", "flashinfer-fa3", "triton", "varlen", "flashinfer-fa2"]),
        (spec(causal=True), LONG, ["fa4", "flashinfer-fa3", "triton"]),
        (spec(64), LONG, ["fa4", "flashinfer-fa3", "triton"]),
        (spec(), SHORT, ["triton", "fa4", "varlen", "flashinfer-fa3"]),
        (spec(32), LONG, ["triton", "fa4", "varlen"]),
        (spec(256), LONG, ["triton", "fa4", "varlen"]),
        (spec(64, window=64), LONG, ["triton", "fa4", "varlen"]),
    ],
)
def test_each_case_goes_to_the_best_that_is_installed(
    attention: AttentionSpec, shape: tuple[int, int], order: list[str]
) -> None:
    for first in range(len(order)):
        preference = chosen([attention], *order[first:])
        assert preference.at(*shape).name == order[first]


@pytest.mark.parametrize("mask", [{"bias": BIAS}, {"alibi": SLOPES}])
def test_bias_and_alibi_are_for_our_own_kernel(mask: dict[str, Tensor]) -> None:
    preference = chosen([spec(64, **mask)], *NAMES)
    assert preference.names == ("triton",)
    with pytest.raises(EngineError, match="varlen has no"):
        chosen([spec(64, **mask)], "fa4", "varlen", "flashinfer-fa3", "flashinfer-fa2")


def test_layers_share_a_backend_that_can_compute_all_their_masks() -> None:
    layers = [spec(64), spec(64, window=64)]
    assert chosen(layers, *NAMES).names == ("triton", "fa4")


def test_mask_beyond_the_best_backend_goes_to_the_next() -> None:
    full, window = spec(64), spec(64, window=64)
    backends = installed("triton", "flashinfer-fa3")
    preference = choose([full, window], torch.bfloat16, backends)
    assert preference.names == ("triton", "flashinfer-fa3+triton")
    configuration = Configuration("embed", *LONG)
    backend = preference.at(*LONG)
    step = host_step(backend, configuration, [4000])
    backend.prepare(step)
    for layer in (full, window, full):
        backend.run(torch.empty(0), torch.empty(0), layer, on_device(step))
    assert backends["flashinfer-fa3"].ran == [full, full]
    assert backends["triton"].ran == [window]


def test_choice_is_a_function_of_the_configuration() -> None:
    preference = chosen([spec()], "fa4", "triton")
    for slots in SLOTS:
        names = [preference.at(tokens, slots).name for tokens in TOKEN_BUCKETS]
        assert names == ["triton" if tokens < 1024 * slots else "fa4" for tokens in TOKEN_BUCKETS]


def test_bound_of_lengths_is_asked_for_where_some_backend_bakes_it() -> None:
    backends = installed("triton", "varlen")
    assert not choose([spec()], torch.bfloat16, backends).bakes_max_seqlen
    backends["varlen"] = Recorder("varlen", CAPS["varlen"], bakes_max_seqlen=True)
    assert choose([spec()], torch.bfloat16, backends, "varlen").bakes_max_seqlen


@pytest.mark.parametrize("name", NAMES)
def test_named_backend_is_used_for_all(name: str) -> None:
    preference = choose([spec()], torch.bfloat16, installed(*NAMES), name)
    assert preference.names == (name,)
    assert preference.at(*SHORT).name == preference.at(*LONG).name == name


@pytest.mark.parametrize(
    ("name", "layers", "message"),
    [
        ("fa5", [spec()], "'fa5' is not known: auto, triton, fa4, varlen, flashinfer-fa3"),
        ("fa4", [spec()], "'fa4' is not installed"),
        ("flashinfer-fa3", [spec(32)], "'flashinfer-fa3' has no head dim 32, which this model"),
        ("flashinfer-fa3", [spec(), spec(window=9)], "has no window to both sides"),
        ("varlen", [spec(bias=BIAS)], "has no relative bias"),
        ("varlen", [spec(alibi=SLOPES)], "has no ALiBi"),
    ],
)
def test_named_backend_that_cannot_be_used_is_refused(
    name: str, layers: list[AttentionSpec], message: str
) -> None:
    backends = installed("flashinfer-fa3", "varlen", "triton")
    with pytest.raises(EngineError, match=re.escape(message)):
        choose(layers, torch.bfloat16, backends, name)


def test_dtype_is_part_of_what_a_backend_can() -> None:
    assert choose([spec()], torch.float32, installed(*NAMES)).names == ("triton",)
    with pytest.raises(EngineError, match="'fa4' has no float32"):
        choose([spec()], torch.float32, installed("fa4"), "fa4")


def test_no_backend_at_all_is_an_error_that_says_why_for_each() -> None:
    with pytest.raises(EngineError) as failure:
        chosen([spec(4)], "fa4")
    assert "triton is not installed" in str(failure.value)
    assert "fa4 has no head dim 4" in str(failure.value)


def test_libraries_that_come_after_the_best_are_not_looked_up() -> None:
    choose([spec(32)], torch.bfloat16, {"triton": Recorder("triton", CAPS["triton"])})
    available = installed("fa4", "triton")
    for name in ("flashinfer-fa3", "flashinfer-fa2", "varlen"):
        del available[name]
    assert choose([spec()], torch.bfloat16, available).names == ("triton", "fa4")
