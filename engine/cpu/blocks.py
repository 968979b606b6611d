"""All layers of a model in one call, where every part of them is compiled."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.block import Block
from engine.cpu.binding import (
    AddedArguments,
    BlockArguments,
    NormArguments,
    StateArguments,
    TokenArguments,
)
from engine.cpu.products import CpuAttention, CpuLinear
from engine.cpu.rows import CpuJoin, CpuRotaryTable
from engine.join import Unjoined
from engine.norm import Norm
from engine.packing import Packed


def cpu_blocks(library: Any, blocks: Sequence[Block]) -> "CpuBlocks | None":
    """None where other kernels compute a part of them."""
    parts = [_parts_of(block) for block in blocks]
    ours = [part for part in parts if part is not None]
    return CpuBlocks(library, ours) if len(ours) == len(parts) else None


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """Of one block, in the order in which they compute."""

    qkv: CpuLinear
    qk_norm: Norm | None
    rotary: CpuRotaryTable | None
    attend: CpuAttention
    output: CpuLinear
    attention_join: CpuJoin
    up: CpuLinear
    down: CpuLinear
    mlp_join: CpuJoin


def _parts_of(block: Block) -> Parts | None:
    attention, mlp = block.attention, block.mlp
    norm, rotary, attend = attention.qk_norm, attention.rotary, attention.attend
    qkv, output, up, down = attention.qkv, attention.output, mlp.up, mlp.down
    attention_join, mlp_join = block.attention_join, block.mlp_join
    if (
        isinstance(qkv, CpuLinear)
        # Queries and keys that are normed and not turned are left to torch.
        and (isinstance(rotary, CpuRotaryTable) or (rotary is None and norm is None))
        and isinstance(attend, CpuAttention)
        and isinstance(output, CpuLinear)
        and isinstance(attention_join, CpuJoin)
        and isinstance(up, CpuLinear)
        and isinstance(down, CpuLinear)
        and isinstance(mlp_join, CpuJoin)
    ):
        return Parts(qkv, norm, rotary, attend, output, attention_join, up, down, mlp_join)
    return None


class CpuBlocks:
    """The same kernels in the same order as by each block. Between two of them Python does not run,
    nor does another thread of it have to be waited for: every call by itself gives the lock of the
    interpreter away, and has to get it back.
    """

    def __init__(self, library: Any, blocks: Sequence[Parts]) -> None:
        self._run, self._blocks = library.run_blocks, blocks  # whose memory is read
        self._kinds = list(dict.fromkeys(block.attend for block in blocks))
        self._arguments = (BlockArguments * len(blocks))(*map(self._arguments_of, blocks))
        self._wide = max(linear.outputs for block in blocks for linear in (block.qkv, block.up))
        self._attended = max(attend.width for attend in self._kinds)
        joins = [join for block in blocks for join in (block.attention_join, block.mlp_join)]
        self._norms = any(join.norms.next is not None for join in joins)

    def __call__(self, hidden: Tensor, entered: Tensor, packed: Packed) -> Unjoined:
        rows, width = hidden.shape
        wide, attended = hidden.new_empty(rows, self._wide), hidden.new_empty(rows, self._attended)
        attention, mlp = torch.empty_like(hidden), torch.empty_like(hidden)
        normed = torch.empty_like(hidden) if self._norms else None
        longest, offsets = int(packed.lengths[-1]), packed.cu_seqlens
        added = (AddedArguments * len(self._kinds))(
            *(AddedArguments(*kind.added(longest)) for kind in self._kinds)
        )
        tokens = TokenArguments(
            *(offsets.data_ptr(), offsets.size(0) - 1, packed.position_ids.data_ptr()),
            *(rows, width),
        )
        states = StateArguments(
            *(hidden.data_ptr(), entered.data_ptr(), wide.data_ptr(), attended.data_ptr()),
            *(attention.data_ptr(), mlp.data_ptr(), None if normed is None else normed.data_ptr()),
        )
        self._run(
            *(self._arguments, len(self._arguments), added),
            *(ctypes.byref(tokens), ctypes.byref(states), hidden.dtype == torch.bfloat16),
        )
        return Unjoined(mlp, attention, self._blocks[-1].mlp_join)

    def _arguments_of(self, block: Parts) -> BlockArguments:
        return BlockArguments(
            block.qkv.arguments,
            NormArguments.of(block.qk_norm),
            None if block.rotary is None else block.rotary.table.data_ptr(),
            block.attend.arguments,
            self._kinds.index(block.attend),
            block.output.arguments,
            block.attention_join.arguments,
            block.up.arguments,
            block.down.arguments,
            block.mlp_join.arguments,
        )
