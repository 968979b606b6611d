"""All layers in one call compute what each block by itself does, bit by bit."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from sequences import batch_of, random_sequences
from torch import Tensor

from engine.attention import AttentionSpec
from engine.block import Block, Mlp, SelfAttention
from engine.cpu.blocks import cpu_blocks
from engine.cpu.products import CpuAttention, CpuLinear
from engine.cpu.rows import CpuJoin, CpuRotaryTable
from engine.encoder import Embeddings, Encoder
from engine.join import JoinNorms, PlainJoin
from engine.linear import PlainLinear
from engine.norm import Norm, RmsNorm
from engine.packing import pack
from engine.rotary import PlainRotaryTable, rotary_table

DTYPES = [torch.float32, torch.bfloat16]
HEADS, KV_HEADS, HEAD_DIM, WIDTH, INNER = 4, 2, 16, 64, 80
FULL = AttentionSpec(HEADS, KV_HEADS, HEAD_DIM, 0.25)
SEQUENCES = random_sequences([1, 3, 17, 40], 97)
NORMS = {  # post-norm, pre-norm, sandwich: what a join has
    "post": JoinNorms(sum=RmsNorm(torch.linspace(0.5, 1.5, WIDTH), 1e-6)),
    "pre": JoinNorms(next=RmsNorm(torch.linspace(0.5, 1.5, WIDTH), 1e-6)),
    "sandwich": JoinNorms(
        behind=RmsNorm(torch.linspace(1.5, 0.5, WIDTH), 1e-6),
        next=RmsNorm(torch.linspace(0.5, 1.5, WIDTH), 1e-6),
    ),
}


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 8


def blocks_of(
    library: Any, dtype: torch.dtype, norms: JoinNorms, turned: bool, gated: bool
) -> list[Block]:
    """Three, the second of which attends to near and earlier tokens alone."""
    qk_norm: Norm | None = None
    rotary = None
    if turned:
        qk_norm = RmsNorm(torch.ones(HEADS + KV_HEADS, HEAD_DIM), 1e-6)
        table = rotary_table(torch.linspace(1, 0.1, HEAD_DIM // 2), 64)
        rotary = CpuRotaryTable(library.turn, table)
    full = CpuAttention(library, FULL, dtype)
    near = CpuAttention(library, replace(FULL, causal=True, window=5), dtype)
    blocks = []
    for i, attend in enumerate((full, near, full)):

        def linear(outputs: int, inputs: int, seed: int, **act: Any) -> CpuLinear:
            weight = random(outputs, inputs, seed=seed).to(dtype)
            return CpuLinear(library, weight, random(outputs, seed=seed + 1), **act)

        inner = 2 * INNER if gated else INNER
        blocks.append(
            Block(
                attention=SelfAttention(
                    qkv=linear((HEADS + 2 * KV_HEADS) * HEAD_DIM, WIDTH, 10 * i),
                    head_dim=HEAD_DIM,
                    turned_heads=HEADS + KV_HEADS,
                    attend=attend,
                    output=linear(WIDTH, HEADS * HEAD_DIM, 10 * i + 2),
                    qk_norm=qk_norm,
                    rotary=rotary,
                ),
                attention_join=CpuJoin(library, norms),
                mlp=Mlp(
                    linear(inner, WIDTH, 10 * i + 4, hidden_act="gelu", gated=gated),
                    linear(WIDTH, INNER, 10 * i + 6),
                ),
                mlp_join=CpuJoin(library, norms),
            )
        )
    return blocks


def encoder_of(library: Any, blocks: list[Block], dtype: torch.dtype, together: bool) -> Encoder:
    embeddings = Embeddings(random(97, WIDTH, seed=99).mul(8).to(dtype), max_positions=64)
    layers = cpu_blocks(library, blocks) if together else None
    return Encoder(embeddings, embeddings, None, blocks, layers)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("norms", NORMS)
def test_states_are_those_of_block_by_block(
    library: Any, norms: str, turned: bool, gated: bool, dtype: torch.dtype
) -> None:
    blocks = blocks_of(library, dtype, NORMS[norms], turned, gated)
    packed = pack(batch_of(SEQUENCES), lambda tokens: tokens)[0]
    apart = encoder_of(library, blocks, dtype, together=False)(packed)
    together = encoder_of(library, blocks, dtype, together=True)
    assert together.layers is not None
    for _ in range(2):  # what a step leaves in memory is nothing to the next
        last = together(packed)
        assert torch.equal(last.hidden, apart.hidden)
        assert torch.equal(last.branch, apart.branch)
    assert torch.equal(last.states(), apart.states())
    assert apart.states().isfinite().all()


def test_what_others_compute_is_left_to_them(library: Any) -> None:
    whole = blocks_of(library, torch.float32, NORMS["post"], turned=True, gated=False)
    assert cpu_blocks(library, whole) is not None
    attention, mlp = whole[1].attention, whole[1].mlp
    plain = PlainLinear(random(WIDTH, INNER, seed=1), None)
    for other in (
        replace(whole[1], mlp=replace(mlp, down=plain)),
        replace(whole[1], mlp_join=PlainJoin(NORMS["post"])),
        replace(whole[1], attention=replace(attention, output=plain)),
        replace(
            whole[1],
            attention=replace(attention, rotary=PlainRotaryTable(torch.zeros(64, HEAD_DIM))),
        ),
        replace(whole[1], attention=replace(attention, rotary=None)),  # normed, and not turned
    ):
        assert cpu_blocks(library, [whole[0], other, whole[2]]) is None
