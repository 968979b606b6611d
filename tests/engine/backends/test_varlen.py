"""torch's operators: those that are installed, and fakes bound to those of the wheels read."""

import pytest
import torch
from attention_steps import expected, host_step, on_device, random_qkv
from fake_attention import FakeAten
from signatures.contract import Contract
from signatures.wheels import TORCH_OLDEST, TORCH_TESTED, Wheel

from engine.attention import AttentionSpec
from engine.backends.varlen import VarlenAttention
from engine.device.buckets import Configuration

CONFIGURATION = Configuration("embed", tokens=64, slots=8)
SPEC = AttentionSpec(heads=4, kv_heads=2, head_dim=32, scale=0.2)
MASKS = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": 3},
    "causal window": {"causal": True, "window": 3},
}
VERSIONS = pytest.mark.parametrize(
    "wheel", [TORCH_OLDEST, TORCH_TESTED], ids=lambda wheel: wheel.version
)


@VERSIONS
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_every_mask_is_passed_on(wheel: Wheel, mask: dict[str, int]) -> None:
    spec = AttentionSpec(heads=4, kv_heads=2, head_dim=32, scale=0.2, **mask)
    backend = VarlenAttention(FakeAten(wheel))
    step = host_step(backend, CONFIGURATION, [5, 1, 30])
    qkv = random_qkv(spec, CONFIGURATION.tokens, torch.float16)
    out = qkv.new_full((CONFIGURATION.tokens, 4 * 32), torch.nan)
    backend.prepare(step)
    backend.run(qkv, out, spec, on_device(step))
    torch.testing.assert_close(out.float(), expected(qkv, step, spec), atol=2e-3, rtol=2e-3)


@VERSIONS
@pytest.mark.parametrize(
    ("configuration", "bound"),
    [
        (Configuration("embed", tokens=64, slots=8, max_seqlen=32), 32),
        (Configuration("embed", tokens=64, slots=8), 64),
        (Configuration("embed", tokens=1, slots=1), 2),  # 1 would be a step of decoding
    ],
)
def test_longest_sequence_is_bounded_by_the_configuration(
    wheel: Wheel, configuration: Configuration, bound: int
) -> None:
    operators = FakeAten(wheel)
    backend = VarlenAttention(operators)
    step = host_step(backend, configuration, [1])
    qkv = random_qkv(SPEC, configuration.tokens, torch.float16)
    backend.run(qkv, qkv.new_empty(configuration.tokens, 4 * 32), SPEC, on_device(step))
    assert operators.asked["max_q"] == operators.asked["max_k"] == bound


@pytest.mark.parametrize("name", sorted(Contract(TORCH_TESTED).operators))
def test_installed_torch_has_the_operators_that_were_read(name: str) -> None:
    installed = getattr(torch.ops.aten, name).default._schema
    assert str(installed) == str(Contract(TORCH_TESTED).schema(name))


def test_oldest_torch_cannot_be_asked_to_share_keys_by_its_public_function() -> None:
    name = "torch.nn.attention.varlen:varlen_attn"
    assert "enable_gqa" not in Contract(TORCH_OLDEST).signature(name).parameters
    assert "enable_gqa" in Contract(TORCH_TESTED).signature(name).parameters
