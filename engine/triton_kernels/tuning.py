"""How large the tiles of ragged attention are, and what a program has to compute them.

Fixed tables: measuring while serving would synchronize, and cannot happen in a capture. What they
rest on is how kernels compile for sm_90 (bench/results/kernels.md): none of them spills registers,
whatever the mask. Their speed was not measured yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# A tile of more rows reads keys and values less often; one of fewer wastes less on sequences that
# have no more than this on average.
_SHORT_TOKENS = 128
# With so few tokens, tiles of 128 rows are too few programs for 132 multiprocessors: 16 heads of
# 1,024 tokens make 128.
_FEW_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Tuning:
    block_m: int  # rows of a tile
    block_n: int  # keys at a time
    warps: int  # 4 for each 64 rows: what one instruction of the tensor cores takes
    stages: int  # blocks of keys and values under way


# By the power of two that a head fits in. The keys at a time do not depend on the lengths.
_SHORT: Mapping[int, Tuning] = {
    32: Tuning(64, 64, warps=4, stages=3),
    64: Tuning(64, 64, warps=4, stages=3),
    128: Tuning(64, 64, warps=4, stages=3),
    256: Tuning(64, 32, warps=8, stages=2),
}
_LONG: Mapping[int, Tuning] = {
    32: Tuning(128, 64, warps=8, stages=3),
    64: Tuning(128, 64, warps=8, stages=3),
    128: Tuning(128, 64, warps=8, stages=3),
    256: Tuning(128, 32, warps=8, stages=2),
}
# In float32, which tensor cores would round, each product is an instruction.
_FLOAT32: Mapping[int, Tuning] = {
    32: Tuning(32, 32, warps=4, stages=1),
    64: Tuning(32, 16, warps=8, stages=2),
    128: Tuning(32, 16, warps=8, stages=1),
    256: Tuning(16, 16, warps=8, stages=1),
}


def tuning(head_dim: int, tokens: int, slots: int, element_bytes: int = 2) -> Tuning:
    """For `slots` sequences of `tokens` in all. Raises ValueError above a head dim of 256."""
    if head_dim > 256:
        raise ValueError(f"no tiles for a head of {head_dim}: at most 256 fit in registers")
    if element_bytes == 4:
        table = _FLOAT32
    elif tokens <= max(_FEW_TOKENS, _SHORT_TOKENS * slots):
        table = _SHORT
    else:
        table = _LONG
    return next(tuned for width, tuned in table.items() if head_dim <= width)
