"""What every library of ragged attention is to the engine."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.attention import AttentionSpec
from engine.device.buckets import Configuration
from engine.device.device import Device


@dataclass(frozen=True, eq=False)
class HostStep:
    """The sequences of one step, before it is enqueued."""

    configuration: Configuration
    lengths: NDArray[np.int32]  # [S + 1]: 0 in a slot that is not used; the dummy tail last
    cu_seqlens: Tensor  # [S + 2] int32 in page-locked memory, from 0 to T
    staging: NDArray[np.int32]  # [staging_ints]: to be filled, and copied to the device


@dataclass(frozen=True, eq=False)
class DeviceStep:
    """The same on the device, in memory that stays where it is from step to step."""

    configuration: Configuration
    cu_seqlens: Tensor  # [S + 2] int32
    staging: Tensor  # [staging_ints] int32


class AttentionBackend(Protocol):
    """Ragged attention of one model's layers. For one thread at a time."""

    name: str  # in the log, in metrics, in /v1/models, and what an operator asks for
    bakes_max_seqlen: bool  # a graph holds only for sequences up to its configuration's max_seqlen

    def staging_ints(self, configuration: Configuration) -> int:
        """How much of the staging buffer it needs."""
        ...

    def prepare(self, step: HostStep) -> None:
        """Before every forward and every replay, with its lengths. Does not wait for the device.

        What it has to enqueue, it does by itself.
        """
        ...

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        """For within `Device.run` or a capture: reads no length on the host.

        qkv [T, heads + 2 · kv_heads, D], contiguous, is read, out [T, heads · D] is written.
        """
        ...


class Candidate(AttentionBackend, Protocol):
    """A backend that can be asked for by name."""

    caps: "Caps"


@dataclass(frozen=True)
class Caps:
    """What a backend computes. All of them share keys among query heads, causal or not."""

    head_dims: Container[int]
    dtypes: frozenset[torch.dtype] = frozenset({torch.float16, torch.bfloat16})
    left_window: bool = True  # of causal attention
    window: bool = True  # to both sides
    bias: bool = False
    alibi: bool = False

    def lacks(self, spec: AttentionSpec, dtype: torch.dtype) -> str | None:
        """What keeps it from computing this; None: nothing does."""
        windowed = self.left_window if spec.causal else self.window
        sides = "the left" if spec.causal else "both sides"
        faults = {
            f"no head dim {spec.head_dim}": spec.head_dim in self.head_dims,
            f"no {str(dtype).removeprefix('torch.')}": dtype in self.dtypes,
            f"no window to {sides}": spec.window is None or windowed,
            "no relative bias": spec.bias is None or self.bias,
            "no ALiBi": spec.alibi is None or self.alibi,
        }
        return next((fault for fault, able in faults.items() if not able), None)


@dataclass(frozen=True, eq=False)
class Layers:
    """What a backend is loaded for: all layers of one model."""

    specs: tuple[AttentionSpec, ...]
    dtype: torch.dtype
    device: Device
