"""Which backend runs which step: settled at load, by what each can do and where each is best."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.attention import AttentionSpec
from engine.backends.backend import AttentionBackend, Candidate, DeviceStep, HostStep
from engine.device.buckets import Configuration
from engine.errors import EngineError

# Best first: by published figures and by what a step costs the host, not by measurements of ours.
_SHORT = ("triton", "fa4", "varlen", "flashinfer-fa3", "flashinfer-fa2")
_LONG = ("fa4", "flashinfer-fa3", "triton", "varlen", "flashinfer-fa2")
NAMES = _SHORT
# Tokens a sequence. Below, attention is at most an eighth of a forward's work: the kernel that
# needs no plan on the host is worth more than the one that computes faster.
_LONG_FROM_TOKENS = 1024
_LONG_HEAD_DIMS = (64, 128)

Available = Mapping[str, Candidate | str]  # by name; a string: why it cannot be used


class Preference:
    """The backends of one model, for short and for long sequences."""

    def __init__(self, short: AttentionBackend, long: AttentionBackend) -> None:
        self._short, self._long = short, long

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that steps may run on, the one for short sequences first."""
        return tuple(dict.fromkeys((self._short.name, self._long.name)))

    @property
    def bakes_max_seqlen(self) -> bool:
        return self._short.bakes_max_seqlen or self._long.bakes_max_seqlen

    def at(self, tokens: int, slots: int) -> AttentionBackend:
        """Of the configuration alone, so that a replay is prepared by what its graph holds."""
        return self._long if tokens >= _LONG_FROM_TOKENS * slots else self._short


def choose(
    specs: Sequence[AttentionSpec], dtype: torch.dtype, available: Available, wanted: str = "auto"
) -> Preference:
    """For all layers of a model; `specs` are the very ones that they run with.

    Looks up as few backends as it can, because a look-up may load a library.

    Raises EngineError where the wanted one cannot compute all layers, or some layer has none.
    """
    if wanted == "auto":
        return Preference(
            short=_best(specs, dtype, available, _SHORT),
            long=_best(specs, dtype, available, _LONG if _long_matters(specs) else _SHORT),
        )
    if wanted not in NAMES:
        raise EngineError(f"attention backend {wanted!r} is not known: auto, {', '.join(NAMES)}")
    backend = available.get(wanted, "is not installed")
    if isinstance(backend, str):
        raise EngineError(f"attention backend {wanted!r} {backend}")
    for lack in filter(None, (backend.caps.lacks(spec, dtype) for spec in specs)):
        raise EngineError(f"attention backend {wanted!r} has {lack}, which this model needs")
    return Preference(backend, backend)


def _long_matters(specs: Sequence[AttentionSpec]) -> bool:
    """Whether the work of a layer grows with the square of a length."""
    return any(spec.window is None and spec.head_dim in _LONG_HEAD_DIMS for spec in specs)


def _best(
    specs: Sequence[AttentionSpec], dtype: torch.dtype, available: Available, order: Sequence[str]
) -> AttentionBackend:
    """The first that can compute something, and for the layers beyond it the next that can."""
    chosen = {spec: _first(spec, dtype, available, order) for spec in specs}
    backends = tuple(dict.fromkeys(chosen.values()))
    return backends[0] if len(backends) == 1 else ByMask(chosen)


def _first(
    spec: AttentionSpec, dtype: torch.dtype, available: Available, order: Sequence[str]
) -> Candidate:
    faults = []
    for name in order:
        backend = available.get(name, "is not installed")
        if isinstance(backend, str):
            faults.append(f"{name} {backend}")
        elif (lack := backend.caps.lacks(spec, dtype)) is not None:
            faults.append(f"{name} has {lack}")
        else:
            return backend
    raise EngineError(f"no attention backend can be used: {'; '.join(faults)}")


class ByMask:
    """Several backends in one step, where no single one computes the masks of all layers."""

    def __init__(self, backends: Mapping[AttentionSpec, AttentionBackend]) -> None:
        self._backends = backends
        self._parts = tuple(dict.fromkeys(backends.values()))
        self.name = "+".join(part.name for part in self._parts)
        self.bakes_max_seqlen = any(part.bakes_max_seqlen for part in self._parts)

    def staging_ints(self, configuration: Configuration) -> int:
        return sum(part.staging_ints(configuration) for part in self._parts)

    def prepare(self, step: HostStep) -> None:
        for part, place in self._places(step.configuration):
            part.prepare(replace(step, staging=step.staging[place]))

    def run(self, qkv: Tensor, out: Tensor, spec: AttentionSpec, inputs: DeviceStep) -> None:
        for part, place in self._places(inputs.configuration):
            if part is self._backends[spec]:
                part.run(qkv, out, spec, replace(inputs, staging=inputs.staging[place]))

    def _places(self, configuration: Configuration) -> Iterator[tuple[AttentionBackend, slice]]:
        """Each backend's part of the staging buffer."""
        start = 0
        for part in self._parts:
            end = start + part.staging_ints(configuration)
            yield part, slice(start, end)
            start = end
