"""The tiles of our kernel's backend: staged, found again on the device, one list a height."""

import pytest
import torch
from attention_steps import expected, host_step, on_device, random_qkv
from simulated_device import SimulatedDevice

from engine.attention import AttentionSpec
from engine.backends.backend import Layers
from engine.backends.triton import TritonAttention
from engine.device.buckets import Configuration

WIDE = AttentionSpec(heads=2, kv_heads=1, head_dim=64, scale=0.2, causal=True)
NARROW = AttentionSpec(heads=2, kv_heads=1, head_dim=16, scale=0.2, window=5)
CONFIGURATION = Configuration("embed", tokens=128, slots=8)
LENGTHS = ([5, 1, 30], [128], [], [16] * 8)


def backend_of(*specs: AttentionSpec) -> TritonAttention:
    return TritonAttention(Layers(specs, torch.float32, SimulatedDevice()))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_every_layer_attends_within_the_sequences(lengths: list[int]) -> None:
    backend = backend_of(WIDE, NARROW)
    step = host_step(backend, CONFIGURATION, lengths)
    backend.prepare(step)
    for spec in (WIDE, NARROW):
        qkv = random_qkv(spec, CONFIGURATION.tokens, torch.float32)
        out = qkv.new_full((CONFIGURATION.tokens, spec.heads * spec.head_dim), torch.nan)
        backend.run(qkv, out, spec, on_device(step))
        torch.testing.assert_close(out, expected(qkv, step, spec), atol=2e-5, rtol=2e-5)


def test_staging_is_filled_to_the_last_int() -> None:
    backend = backend_of(WIDE, NARROW)
    step = host_step(backend, CONFIGURATION, [5, 1, 30])
    backend.prepare(step)
    assert 0x5A5A5A5A not in step.staging
