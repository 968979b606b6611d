"""Embeddings, joins, norms, rotations and pooling by the compiled kernels."""

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from checkpoint.spec import Pooling
from engine.cpu.binding import EmbeddingArguments, JoinArguments, NormArguments
from engine.encoder import Embeddings
from engine.join import JoinNorms, Unjoined
from engine.norm import Norm
from engine.packing import Packed

_POOLINGS: dict[Pooling, int] = {"mean": 0, "mean_sqrt_len": 1, "weighted_mean": 2, "max": 3}


class CpuEmbed:
    def __init__(self, library: Any, embeddings: Embeddings) -> None:
        self._run, self._embeddings = library.embed, embeddings  # whose memory is read
        words = embeddings.words
        self._dtype, self._width = words.dtype, words.size(1)
        types = None if embeddings.positions is not None else embeddings.type_rows
        self._arguments = EmbeddingArguments(
            *(words.data_ptr(), _address(embeddings.positions), _address(types)),
            NormArguments.of(embeddings.norm),
            *(self._width, embeddings.max_positions),
        )

    def __call__(self, packed: Packed) -> Tensor:
        ids = packed.input_ids
        out = torch.empty(ids.size(0), self._width, dtype=self._dtype)
        self._run(
            *(ctypes.addressof(self._arguments), ids.data_ptr(), packed.position_ids.data_ptr()),
            _address(packed.type_ids if self._embeddings.types else None),
            *(out.data_ptr(), ids.size(0), self._dtype == torch.bfloat16),
        )
        return out


class CpuJoin:
    """The new hidden states are in the memory of the branch."""

    __slots__ = ("_address", "_run", "arguments", "norms")

    def __init__(self, library: Any, norms: JoinNorms) -> None:
        self._run, self.norms = library.join, norms  # whose memory is read
        arguments = (NormArguments.of(norm) for norm in (norms.behind, norms.sum, norms.next))
        self.arguments = JoinArguments(*arguments)
        self._address = ctypes.addressof(self.arguments)

    def __call__(self, branch: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        entered = branch if self.norms.next is None else torch.empty_like(branch)
        self._run(
            *(self._address, branch.data_ptr(), hidden.data_ptr(), entered.data_ptr()),
            *(*branch.shape, branch.dtype == torch.bfloat16),
        )
        return branch, entered


class CpuNorm:
    def __init__(self, library: Any, norm: Norm) -> None:
        self._run, self._norm = library.norm, norm  # whose memory is read
        self._arguments = NormArguments.of(norm)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        out, (rows, width) = torch.empty_like(x), x.shape
        self._run(
            *(ctypes.addressof(self._arguments), x.data_ptr(), out.data_ptr()),
            *(rows, width, x.dtype == torch.bfloat16),
        )
        return out


@dataclass(frozen=True, eq=False, slots=True)
class CpuRotaryTable:
    """Every layer reads it by position: nothing is gathered before."""

    run: Any  # the kernel
    table: Tensor  # [positions, D] float32

    def at(self, position_ids: Tensor) -> "CpuRotation":
        return CpuRotation(self.run, self.table, position_ids)


@dataclass(frozen=True, eq=False, slots=True)
class CpuRotation:
    run: Any
    table: Tensor
    position_ids: Tensor  # [T] int32

    def turn_(self, heads: Tensor, norm: Norm | None) -> None:
        tokens, count, head_dim = heads.shape
        arguments = NormArguments.of(norm)
        self.run(
            *(ctypes.addressof(arguments), heads.data_ptr(), count, head_dim, heads.stride(0)),
            *(self.table.data_ptr(), self.position_ids.data_ptr(), tokens),
            heads.dtype == torch.bfloat16,
        )


@dataclass(frozen=True, eq=False, slots=True)
class CpuPool:
    run: Any

    def __call__(self, last: Unjoined, packed: Packed, pooling: Pooling) -> Tensor:
        starts, lengths, before = _segments(packed)
        if pooling in ("cls", "last_token"):  # no other token is joined
            tokens = starts if pooling == "cls" else starts + lengths - 1
            return last.join(last.branch[tokens], last.hidden[tokens])[1].float()
        hidden = last.states()
        rows = torch.empty(starts.size(0), hidden.size(1))
        self.run(
            *(hidden.data_ptr(), starts.data_ptr(), lengths.data_ptr(), _address(before)),
            *(_POOLINGS[pooling], rows.data_ptr(), *rows.shape, hidden.dtype == torch.bfloat16),
        )
        return rows


def _segments(packed: Packed) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of each row to pool: its first token, its tokens, and those before it in its sequence."""
    spans = packed.spans
    if spans is not None:
        starts, lengths, before = (
            torch.from_numpy(values).contiguous()
            for values in (spans.starts, spans.lengths, spans.positions)
        )
        return starts, lengths, before
    bounds = packed.cu_seqlens[: packed.lengths.size + 1]
    starts, ends = bounds[:-1], bounds[1:]
    return starts, ends - starts, None


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
