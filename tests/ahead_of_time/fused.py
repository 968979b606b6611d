"""The launches of what is between attention's: norms, rotations, gates, products and pooling."""

from functools import partial

import torch
from ahead_of_time.case import Case
from torch import Tensor

from checkpoint.spec import Pooling
from engine.encoder import Embeddings
from engine.join import JoinNorms
from engine.norm import LayerNorm, Norm, RmsNorm
from engine.segments import Segments
from engine.triton_kernels.embed import embed
from engine.triton_kernels.finish import finish
from engine.triton_kernels.gate import gate
from engine.triton_kernels.join import join
from engine.triton_kernels.linear import linear
from engine.triton_kernels.norm import normed
from engine.triton_kernels.pool import pool
from engine.triton_kernels.turn import turn_

_LAYER_WIDTHS, _RMS_WIDTHS = (384, 768, 1024), (768, 1024, 2560, 4096)
_HALF, _FULL = torch.bfloat16, torch.float32
_FEW = 64  # tokens
_SPREAD_POOLINGS: tuple[Pooling, ...] = ("mean", "max", "mean_sqrt_len", "weighted_mean")


def _empty(*shape: int, dtype: torch.dtype = _HALF) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def _ids(count: int = _FEW) -> Tensor:
    return torch.zeros(count, dtype=torch.int32)


def _norm(kind: str, width: int) -> Norm:
    weight = _empty(width, dtype=_FULL)
    if kind == "rms":
        return RmsNorm(weight, 1e-6)
    return LayerNorm(weight, _empty(width, dtype=_FULL) if kind == "layer" else None, 1e-12)


def _norms(kind: str, width: int) -> JoinNorms:
    layer, rms = _norm("layer", width), _norm("rms", width)
    return {
        "post": JoinNorms(sum=layer),
        "pre unbiased": JoinNorms(next=_norm("unbiased", width)),
        "pre rms": JoinNorms(next=rms),
        "sandwich": JoinNorms(behind=rms, next=rms),
        "all": JoinNorms(behind=layer, sum=layer, next=layer),
    }[kind]


def _normed(kind: str, width: int, dtype: torch.dtype) -> None:
    normed(_empty(_FEW, width, dtype=dtype), _norm(kind, width))


def _join(kind: str, width: int, dtype: torch.dtype) -> None:
    x = _empty(_FEW, width, dtype=dtype)
    join(x, x, _norms(kind, width))


def _embed(kind: str, width: int, dtype: torch.dtype) -> None:
    table = _empty(_FEW, width, dtype=dtype)
    embeddings = {
        "words": Embeddings(table, _FEW),
        "positions": Embeddings(table, _FEW, positions=table, norm=_norm("layer", width)),
        "types": Embeddings(table, _FEW, types=2, type_rows=table, norm=_norm("layer", width)),
        "both": Embeddings(table, _FEW, types=2, positions=table, norm=_norm("layer", width)),
    }[kind]
    embed(embeddings, _ids(), _ids(), _ids())


def _turn(kind: str, head_dim: int, heads: int, dtype: torch.dtype) -> None:
    norm = RmsNorm(_empty(heads, head_dim, dtype=_FULL), 1e-6) if "norm" in kind else None
    table = _empty(_FEW, head_dim, dtype=_FULL) if "rope" in kind else None
    turn_(_empty(_FEW, heads + 2, head_dim, dtype=dtype), heads, norm, table, _ids())


def _gate(hidden_act: str, width: int, dtype: torch.dtype) -> None:
    gate(_empty(_FEW, 2 * width, dtype=dtype), hidden_act)


def _linear(kind: str, tokens: int, outputs: int, inputs: int, dtype: torch.dtype) -> None:
    """`kind`: an activation, and whether it is gated or biased."""
    hidden_act, *words = kind.split()
    gated = "gated" in words
    bias = _empty((1 + gated) * outputs, dtype=dtype) if "biased" in words else None
    weight = _empty((1 + gated) * outputs, inputs, dtype=dtype)
    x = _empty(tokens, inputs, dtype=dtype)
    linear(x, weight, bias, None if hidden_act == "none" else hidden_act, gated)


def _pool(pooling: Pooling, kind: str, width: int, dtype: torch.dtype) -> None:
    x = _empty(_FEW, width, dtype=dtype)
    branch, norms = (None, JoinNorms()) if kind == "alone" else (x, _norms(kind, width))
    pool(branch, x, norms, Segments(_ids(8), _ids(8), _ids(8)), pooling)


def _finish(width: int) -> None:
    finish(_empty(_FEW, width, dtype=_FULL), _empty(_FEW, width + 1, dtype=_FULL))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _rows_cases(dtype: torch.dtype) -> list[Case]:
    """One row a program."""
    kinds = [
        *(("post", width) for width in _LAYER_WIDTHS),
        *(("pre rms", width) for width in _RMS_WIDTHS),
        ("pre unbiased", 768),
        ("sandwich", 768),
    ]
    name = _name(dtype)
    return [
        *(Case(f"join H={n} {name} {kind}", partial(_join, kind, n, dtype)) for kind, n in kinds),
        *(
            Case(f"pool H={n} {name} {kind} cls", partial(_pool, "cls", kind, n, dtype))
            for kind, n in kinds
        ),
        *(Case(f"normed H={n} {name} rms", partial(_normed, "rms", n, dtype)) for n in _RMS_WIDTHS),
        *(
            Case(f"embed H={n} {name} both", partial(_embed, "both", n, dtype))
            for n in _LAYER_WIDTHS
        ),
        *(
            Case(f"embed H={n} {name} words", partial(_embed, "words", n, dtype))
            for n in _RMS_WIDTHS
        ),
        Case(f"embed H=768 {name} types", partial(_embed, "types", 768, dtype)),
        Case(f"embed H=768 {name} positions", partial(_embed, "positions", 768, dtype)),
    ]


def _parts_cases(dtype: torch.dtype) -> list[Case]:
    """A part of a row, or of several, a program."""
    name = _name(dtype)
    turns = [("norm rope", 128, 24), ("norm rope", 256, 4), ("rope", 64, 24), ("rope", 96, 16)]
    gates = [("silu", 3072), ("silu", 9728), ("gelu", 1152), ("gelu_pytorch_tanh", 1152)]
    return [
        *(
            Case(f"turn D={d} {name} {kind}", partial(_turn, kind, d, heads, dtype))
            for kind, d, heads in turns
        ),
        *(Case(f"gate I={n} {name} {act}", partial(_gate, act, n, dtype)) for act, n in gates),
        *(
            Case(f"pool H=1024 {name} {pooling}", partial(_pool, pooling, "alone", 1024, dtype))
            for pooling in _SPREAD_POOLINGS
        ),
    ]


def _linear_cases(dtype: torch.dtype) -> list[Case]:
    """Every tile, epilogue and remainder; widths of MiniLM, ModernBERT, bge-m3, Qwen3 0.6B, 4B."""
    shapes = [
        ("gelu biased", 16, 1536, 384),
        ("gelu biased", 128, 1536, 384),
        ("gelu biased", 512, 1536, 384),
        ("gelu biased", 512, 4096, 1024),
        ("relu biased", 128, 4096, 1024),
        ("none", 128, 4096, 1024),
        ("gelu gated", 128, 1152, 768),
        ("silu gated", 16, 3072, 1024),
        ("silu gated", 128, 3072, 1024),
        ("silu gated", 256, 3072, 1024),
        ("silu gated biased", 512, 9728, 2560),
        ("gelu_new", 64, 1000, 1000),
    ]
    name = _name(dtype)
    return [
        Case(f"linear {t}x{n}x{k} {name} {kind}", partial(_linear, kind, t, n, k, dtype))
        for kind, t, n, k in shapes
    ]


FUSED_DISPATCH: tuple[Case, ...] = (
    *_rows_cases(_HALF),
    *_parts_cases(_HALF),
    *_linear_cases(_HALF),
    *(Case(f"finish D={n}", partial(_finish, n)) for n in (1, 384, 1024, 30522)),
)
FUSED_PRODUCT: tuple[Case, ...] = (
    *FUSED_DISPATCH,
    *(
        case
        for dtype in (torch.float16, _FULL)
        for case in (*_rows_cases(dtype), *_parts_cases(dtype))
    ),
    *_linear_cases(torch.float16),
    *(
        Case(f"join H={n} bfloat16 all", partial(_join, "all", n, _HALF))
        for n in (384, 768, 1024, 2560, 4096)
    ),
)
