"""Embeddings: rows of words, positions and types gathered, added and normed in one kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.encoder import Embeddings
from engine.triton_kernels.norm import (
    load_row,
    norm_arguments,
    normed_row,
    row_block,
    store_row,
)


def embed(
    embeddings: Embeddings, input_ids: Tensor, position_ids: Tensor, type_ids: Tensor | None
) -> Tensor:
    """int32 [T] each -> [T, H]. Every table's rows must be dense."""
    words, norm = embeddings.words, embeddings.norm
    tokens, width = input_ids.size(0), words.size(1)
    out = torch.empty(tokens, width, dtype=words.dtype, device=words.device)
    block, warps = row_block(width)
    _embed_kernel[(tokens,)](
        out,
        words,
        embeddings.positions,
        None if embeddings.positions is not None else embeddings.type_rows,
        input_ids,
        position_ids,
        type_ids if embeddings.types else None,
        *norm_arguments(norm),
        embeddings.max_positions,
        RMS=norm is not None and norm.rms,
        H=width,
        BLOCK=block,
        num_warps=warps,
        enable_fp_fusion=True,
    )
    return out


# Views into one buffer: how they are aligned differs from step to step.
@triton.jit(do_not_specialize_on_alignment=["input_ids", "position_ids", "type_ids"])
def _embed_kernel(
    out,
    words,
    positions,
    type_rows,
    input_ids,
    position_ids,
    type_ids,
    weight,
    bias,
    eps,
    max_positions,
    RMS: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x = load_row(words + tl.load(input_ids + token).to(tl.int64) * H, columns, H)
    token_type = 0
    if type_ids is not None:
        token_type = tl.load(type_ids + token)
    if positions is not None:
        place = tl.load(position_ids + token) + token_type * max_positions
        x += load_row(positions + place.to(tl.int64) * H, columns, H)
    if type_rows is not None:
        x += load_row(type_rows + token_type * H, columns, H)
    x = normed_row(x, columns, weight, bias, eps, H, RMS)
    store_row(out + token * H, columns, x, H)
