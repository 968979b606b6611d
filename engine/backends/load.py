"""The backends that this machine has, each loaded when it is first looked up."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from time import perf_counter

import numpy as np
import torch

from engine.backends.backend import AttentionBackend, Candidate, Caps, DeviceStep, HostStep, Layers
from engine.backends.flash_attention_4 import FlashAttention4
from engine.backends.flashinfer import FlashInfer
from engine.backends.triton import TritonAttention
from engine.backends.varlen import VarlenAttention
from engine.device.buckets import Configuration
from engine.device.device import Device
from engine.device.memory import is_sticky, translated

logger = logging.getLogger(__name__)

# Before, a graph of FA2 that does not split keys reads stale indices (flashinfer#4002).
_LEAST_FLASHINFER = "0.7.4"
_TRIAL_LENGTHS = (40, 24)  # of a sequence and of the dummy tail


class Installed(Mapping[str, Candidate | str]):
    """Each backend by its name, or why it cannot be used, in words that follow its name."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._known: dict[str, Candidate | str] = {}

    def __getitem__(self, name: str) -> Candidate | str:
        loader = _LOADERS[name]
        if name not in self._known:
            self._known[name] = _load(name, loader, self._layers)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_LOADERS)

    def __len__(self) -> int:
        return len(_LOADERS)


@dataclass(frozen=True)
class _Loader:
    caps: Caps
    load: Callable[[Layers], Candidate]


def _load(name: str, loader: _Loader, layers: Layers) -> Candidate | str:
    lacks = [loader.caps.lacks(spec, layers.dtype) for spec in layers.specs]
    if None not in lacks:  # no library is loaded, no kernel compiled in vain
        return f"has {lacks[0]}"
    started_s = perf_counter()
    try:
        backend = loader.load(layers)
        _try(backend, layers)
    except Exception as error:  # whatever a library raises on a machine that it does not fit
        if is_sticky(error):
            raise translated(error) from error
        reason = _reason(error)
        logger.info("attention backend %s is not used: it %s", name, reason)
        return reason
    logger.info("attention backend %s took %.1f s to load", name, perf_counter() - started_s)
    return backend


def _try(backend: Candidate, layers: Layers) -> None:
    """Compile what is compiled at a first use, and see that a mean of ones is one."""
    device, specs = layers.device, layers.specs
    able = [spec for spec in specs if backend.caps.lacks(spec, layers.dtype) is None]
    step, host = _trial(backend, device)
    backend.prepare(step)
    attended = []

    def forward() -> None:
        inputs = host.to(device.place, non_blocking=True)
        cu_seqlens, staging = inputs.tensor_split([len(step.cu_seqlens)])
        for spec in able:
            size = (sum(_TRIAL_LENGTHS), sum(spec.sizes), spec.head_dim)
            qkv = torch.ones(size, dtype=layers.dtype, device=device.place)
            out = qkv.new_empty(size[0], spec.heads * spec.head_dim)
            backend.run(qkv, out, spec, DeviceStep(step.configuration, cu_seqlens, staging))
            attended.append(out)

    with torch.inference_mode():
        device.run(forward)
        device.synchronize()
        if not all(torch.allclose(out, torch.ones_like(out), atol=0.01) for out in attended):
            raise Unavailable("computes wrong numbers on this machine")


def _trial(backend: AttentionBackend, device: Device) -> tuple[HostStep, torch.Tensor]:
    """A step, and what it uploads: [S + 2 + staging_ints]."""
    configuration = Configuration("trial", sum(_TRIAL_LENGTHS), slots=1, max_seqlen=64)
    lengths = np.array(_TRIAL_LENGTHS, dtype=np.int32)
    ints = lengths.size + 1 + backend.staging_ints(configuration)
    host = device.pinned(4 * ints).view(torch.int32)
    cu_seqlens, staging = host.tensor_split([lengths.size + 1])
    cu_seqlens.numpy()[:] = np.concatenate([[0], lengths.cumsum()])
    return HostStep(configuration, lengths, cu_seqlens, staging.numpy()), host


def _reason(error: Exception) -> str:
    if isinstance(error, Unavailable):
        return str(error)
    if isinstance(error, ImportError):
        return f"is not installed: {error}"
    message = str(error).partition("\n")[0]
    return f"does not run here: {type(error).__name__}: {message}"


class Unavailable(Exception):
    """Why a backend cannot be used on this machine, in words that follow its name."""


def _load_flashinfer(kernels: str, layers: Layers) -> FlashInfer:
    library = import_module("flashinfer")
    if _parts(library.__version__) < _parts(_LEAST_FLASHINFER):
        raise Unavailable(f"needs flashinfer-python {_LEAST_FLASHINFER}, not {library.__version__}")
    if kernels == "fa3" and not library.utils.is_sm90a_supported(layers.device.place):
        raise Unavailable(f"needs a Hopper GPU and CUDA 12.3, not {layers.device.model}")
    return FlashInfer(kernels, layers, library.BatchPrefillWithRaggedKVCacheWrapper)


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


_LOADERS = {
    "triton": _Loader(TritonAttention.caps, TritonAttention),
    "fa4": _Loader(
        FlashAttention4.caps, lambda _: FlashAttention4(import_module("flash_attn.cute.interface"))
    ),
    "varlen": _Loader(VarlenAttention.caps, lambda _: VarlenAttention(torch.ops.aten)),
    "flashinfer-fa3": _Loader(FlashInfer.caps, partial(_load_flashinfer, "fa3")),
    "flashinfer-fa2": _Loader(FlashInfer.caps, partial(_load_flashinfer, "fa2")),
}
