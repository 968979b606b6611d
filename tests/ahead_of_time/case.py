"""A launch whose kernels are to compile for sm_90."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """`launch` calls what the engine calls, with tensors of a CPU: only their dtypes, strides and
    alignment are looked at, so `torch.empty` does.
    """

    name: str  # kernel and what is special: "attention D=64 bfloat16 causal long"
    launch: Callable[[], object]
