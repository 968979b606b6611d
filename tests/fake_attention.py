"""Other packages' attention, without their kernels: what they accept, what they do when.

Calls are bound to the signatures that tests/signatures read, and a kernel computes when the device
comes by, from what its memory then holds.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from signatures.contract import Contract
from signatures.wheels import FLASH_ATTENTION_4, FLASHINFER, Wheel
from simulated_device import SimulatedDevice
from torch import Tensor

from engine.attention import AttentionSpec

Work = Callable[[], None]
RAGGED = "flashinfer.prefill:BatchPrefillWithRaggedKVCacheWrapper"


class LaunchingDevice(SimulatedDevice):
    """As CUDA is used: what `run` is given happens at once, what that launches happens later."""

    def __init__(self) -> None:
        super().__init__()
        self._launches: list[Work] | None = None

    def run(self, work: Work) -> None:
        work()

    def launch(self, work: Work) -> None:
        if self._launches is None:
            super().run(work)
        else:
            self._launches.append(work)

    def captured(self, work: Work) -> list[Work]:
        self._launches = launches = []
        work()
        self._launches = None
        return launches

    def replay(self, launches: list[Work]) -> None:
        for launch in launches:
            super().run(launch)


def attend(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, spec: AttentionSpec) -> Tensor:
    """The reference, in float32: [T, heads, D], zeros where no sequence is."""
    group = spec.heads // spec.kv_heads
    keys, values = (heads.float().repeat_interleave(group, 1) for heads in (k, v))
    attended = torch.zeros(q.shape)
    bounds = cu_seqlens.tolist()
    for start, end in pairwise(bounds):
        rows = slice(start, end)
        positions = torch.arange(end - start)
        scores = torch.einsum("qhd,khd->hqk", q[rows].float(), keys[rows]) * spec.scale
        weights = torch.softmax(scores + spec.added(positions - positions[:, None]), -1)
        attended[rows] = torch.einsum("hqk,khd->qhd", weights, values[rows])
    return attended


class FakeFlashInfer:
    """The module. `device` computes; its wrappers are kept in the order they were made."""

    def __init__(
        self, device: LaunchingDevice, version: str = "0.7.4", hopper: bool = True
    ) -> None:
        self.__version__ = version
        self.utils = SimpleNamespace(is_sm90a_supported=lambda device: hopper)
        self.device = device
        self.wrappers: list[FakeWrapper] = []

    def BatchPrefillWithRaggedKVCacheWrapper(self, *args: Any, **kwargs: Any) -> "FakeWrapper":  # noqa: N802
        self.wrappers.append(FakeWrapper(self.device, *args, **kwargs))
        return self.wrappers[-1]


class FakeWrapper:
    """Its plan is what the host wrote last into page-locked memory, once that was copied."""

    def __init__(self, device: LaunchingDevice, *args: Any, **kwargs: Any) -> None:
        self.contract = Contract(FLASHINFER)
        self.made_with = self.contract.bind(f"{RAGGED}.__init__", self, *args, **kwargs)
        self.planned_with: list[dict[str, Any]] = []
        self.pinned: list[int] = []  # the address of each plan's page-locked memory
        self.rows: int | None = None
        self._device = device
        self._int_workspace_buffer = torch.empty(8 << 20, dtype=torch.uint8)
        self._pin_memory_int_workspace_buffer = torch.empty(8 << 20, dtype=torch.uint8)

    def plan(self, *args: Any, **kwargs: Any) -> None:
        asked = self.contract.bind(f"{RAGGED}.plan", self, *args, **kwargs)
        indptr, buffer = asked["qo_indptr"], self.made_with["qo_indptr_buf"]
        rows = int(indptr[-1])
        if self.made_with["use_cuda_graph"]:
            self.rows = self.rows or rows
            if rows > self.rows or len(indptr) != len(buffer):
                raise ValueError(
                    "more rows than were planned first, or another number of sequences"
                )
        self.planned_with.append(asked)
        pinned, planned = self._pin_memory_int_workspace_buffer, self._int_workspace_buffer
        self.pinned.append(pinned.data_ptr())
        size = 8 * len(indptr) + 8
        plan = torch.cat([indptr.long(), torch.tensor([asked["window_left"]])])
        pinned[:size].view(torch.int64).copy_(plan)
        self._device.launch(lambda: buffer.copy_(indptr))
        self._device.launch(lambda: planned[:size].copy_(pinned[:size]))

    def run(self, *args: Any, **kwargs: Any) -> Tensor:
        asked = self.contract.bind(f"{RAGGED}.run", self, *args, **kwargs)
        q, k, v, out = (asked[name] for name in ("q", "k", "v", "out"))
        planned = self.planned_with[-1]
        if len(q) != int(planned["qo_indptr"][-1]) or q.dtype != planned["q_data_type"]:
            raise ValueError("other rows or another dtype than was planned")
        # What a graph holds: addresses and options, but no lengths.
        indptr, plan = self.made_with["qo_indptr_buf"], self._int_workspace_buffer
        window = planned["window_left"]
        spec = AttentionSpec(
            *(planned["num_qo_heads"], planned["num_kv_heads"], planned["head_dim_qk"]),
            *(planned["sm_scale"], planned["causal"], None if window < 0 else window),
        )

        def kernel() -> None:
            size = 8 * len(indptr) + 8
            *bounds, planned_window = plan[:size].view(torch.int64).tolist()
            if bounds != indptr.tolist() or planned_window != window:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            out.copy_(attend(q, k, v, torch.tensor(bounds), spec))

        self._device.launch(kernel)
        return out


class FakeFlashAttention4:
    """The module of its kernels' interface, as the wheel that was read has it."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self._contract = Contract(FLASH_ATTENTION_4)

    def _flash_attn_fwd(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        name = "flash_attn.cute.interface:_flash_attn_fwd"
        self.asked = asked = self._contract.bind(name, *args, **kwargs)
        left, right = asked["window_size_left"], asked["window_size_right"]
        spec = _spec(asked["q"], asked["k"], asked["softmax_scale"], asked["causal"], left, right)
        out = asked["out"]
        out.copy_(attend(asked["q"], asked["k"], asked["v"], asked["cu_seqlens_q"], spec))
        return out, None, None, None, None


class FakeAten:
    """torch's operators, as the wheel that was read has them."""

    def __init__(self, wheel: Wheel) -> None:
        self.asked: dict[str, Any] = {}
        self._contract = Contract(wheel)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._contract.operators:
            raise AttributeError(name)
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        self.asked = asked = self._contract.bind_operator(name, *args, **kwargs)
        q, k, v = asked["query"], asked["key"], asked["value"]
        sides = (asked["window_size_left"], asked["window_size_right"])
        left, right = (None if side == -1 else side for side in sides)
        spec = _spec(q, k, asked["scale"], asked["is_causal"], left, right)
        out = asked.get("out", torch.full_like(q, torch.nan))
        out.copy_(attend(q, k, v, asked["cum_seq_q"], spec))
        return out, None, None, None, None


def _spec(
    q: Tensor, k: Tensor, scale: float, causal: bool, left: int | None, right: int | None
) -> AttentionSpec:
    if right != (0 if causal else left):
        raise ValueError("a window that is neither symmetric nor causal")
    return AttentionSpec(q.size(1), k.size(1), q.size(2), scale, causal=causal, window=left)
