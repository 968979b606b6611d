"""FlashAttention 4's adapter against a fake that is bound to its signature."""

import pytest
import torch
from attention_steps import expected, host_step, on_device, random_qkv
from fake_attention import FakeFlashAttention4

from engine.attention import AttentionSpec
from engine.backends.flash_attention_4 import FlashAttention4
from engine.device.buckets import Configuration

CONFIGURATION = Configuration("embed", tokens=64, slots=8)
MASKS = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": 3},
    "causal window": {"causal": True, "window": 3},
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_every_mask_is_passed_on(mask: dict[str, int]) -> None:
    spec = AttentionSpec(heads=4, kv_heads=2, head_dim=32, scale=0.2, **mask)
    backend = FlashAttention4(FakeFlashAttention4())
    step = host_step(backend, CONFIGURATION, [5, 1, 30])
    qkv = random_qkv(spec, CONFIGURATION.tokens, torch.float16)
    out = qkv.new_full((CONFIGURATION.tokens, 4 * 32), torch.nan)
    backend.prepare(step)
    backend.run(qkv, out, spec, on_device(step))
    torch.testing.assert_close(out.float(), expected(qkv, step, spec), atol=2e-3, rtol=2e-3)


def test_no_length_is_passed_so_that_a_graph_holds_for_all() -> None:
    library = FakeFlashAttention4()
    backend = FlashAttention4(library)
    spec = AttentionSpec(heads=1, kv_heads=1, head_dim=32, scale=0.2)
    step = host_step(backend, CONFIGURATION, [5])
    qkv = random_qkv(spec, CONFIGURATION.tokens, torch.float16)
    backend.run(qkv, qkv.new_empty(CONFIGURATION.tokens, 32), spec, on_device(step))
    assert library.asked["max_seqlen_q"] is None
    assert library.asked["max_seqlen_k"] is None
    assert library.asked["num_splits"] == 1  # the sum of a row does not depend on the batch
