"""The answer of a step that may still be running on the device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StepOutput:
    """The rows of each sequence, in the order of the batch."""

    rows: NDArray[np.float32]  # [N, D]; D = 1 for scores and for the weights of sparse
    finite: NDArray[np.bool_]  # [B]; False: a row of the sequence holds NaN or infinity
    timings: Mapping[str, float]  # seconds by stage; "infer" is device-busy time
    padded_tokens: int = 0  # dummy tokens added to the batch
    row_offsets: NDArray[np.int32] | None = None  # [B + 1]; None: one row a sequence
    indices: NDArray[np.int32] | None = None  # [N]: the token id of each weight of sparse
    launch: Literal["replay", "eager"] | None = None  # of an accelerator's step


@dataclass(frozen=True)
class DeviceStats:
    """Of a model's accelerator, as of now; counts since the start."""

    graphs: int  # that can be replayed
    graph_bytes: int
    captures: int
    failed_captures: int
    evictions: int  # of graphs, for want of room
    used_bytes: int  # of the device, by all of its users
    total_bytes: int


class LazyTensor(Protocol):
    """Resolves once, on the thread that learns of it: the engine's (CPU) or a completion thread."""

    def ready(self) -> bool: ...

    def wait(self) -> StepOutput:
        """Block until the step is done. Raises what the step raised."""
        ...

    def add_done_callback(self, callback: Callable[["LazyTensor"], None]) -> None:
        """Call back once, at once if it is done already."""
        ...


class ResolvedTensor:
    """The CPU's form: `step` computed it before returning."""

    __slots__ = ("_output",)

    def __init__(self, output: StepOutput) -> None:
        self._output = output

    def ready(self) -> bool:
        return True

    def wait(self) -> StepOutput:
        return self._output

    def add_done_callback(self, callback: Callable[[LazyTensor], None]) -> None:
        callback(self)
