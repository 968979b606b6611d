"""Backends of attention: whether they compute what they should, and how fast they do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from bench.gpu.parts.part import Row, Rows, Value
from bench.gpu.ragged import RaggedCase, RaggedRun, expected, on_device, poisoned
from bench.gpu.roofline import PEAK_FLOP_PER_S
from bench.gpu.setup import Setup
from bench.gpu.timing import computed, time_host, time_kernels
from engine.attention import AttentionSpec
from engine.backends.backend import AttentionBackend, Layers
from engine.backends.choice import NAMES
from engine.device.memory import is_sticky

# Values are normal, so outputs are near 1 and bfloat16 rounds them by 0.004 at most; probabilities
# are rounded as well before they meet the values. A wrong mask or neighbour moves a row by 0.1.
_MAX_ERROR = 0.03
_WINDOW, _REACH = 64, 32
_IN_TURN = 10  # runs in one graph: the gap before a replay is divided among them


def measure(setup: Setup) -> Rows:
    head_dims = setup.sizes.head_dims
    # Each mask and each head dim once, then the rest of their product as time allows.
    first = [(head_dims[place % len(head_dims)], mask) for place, mask in enumerate(_MASKS)]
    rest = [pair for pair in product(head_dims, _MASKS) if pair not in first]
    for head_dim, mask in first:
        yield from _errors(setup, RaggedCase(mask.spec(head_dim), setup.sizes.short_lengths), mask)
    yield from _speeds(setup)
    for lengths, pairs in ((setup.sizes.long_lengths, first), (setup.sizes.short_lengths, rest)):
        for head_dim, mask in pairs:
            yield from _errors(setup, RaggedCase(mask.spec(head_dim), lengths), mask)


@dataclass(frozen=True)
class _Mask:
    name: str
    causal: bool = False
    window: int | None = None
    added: str | None = None  # bias or ALiBi
    shared: int = 1  # query heads that share one of keys and values

    def spec(self, head_dim: int, heads: int = 4) -> AttentionSpec:
        generator = torch.Generator().manual_seed(head_dim)
        slopes = 2.0 ** -torch.arange(1, heads + 1)
        table = torch.randn(heads, 2 * _REACH + 1, generator=generator)
        return AttentionSpec(
            heads=heads,
            kv_heads=heads // self.shared,
            head_dim=head_dim,
            scale=head_dim**-0.5,
            causal=self.causal,
            window=self.window,
            bias=table if self.added == "bias" else None,
            alibi=slopes if self.added == "alibi" else None,
        )


_MASKS = (
    _Mask("full"),
    _Mask("causal, shared keys", causal=True, shared=2),
    _Mask(f"± {_WINDOW}", window=_WINDOW),
    _Mask(f"causal, {_WINDOW}", causal=True, window=_WINDOW),
    _Mask("bias", added="bias"),
    _Mask("ALiBi", added="alibi"),
    _Mask("causal", causal=True),
    _Mask("full, shared keys", shared=2),
)


def _errors(setup: Setup, case: RaggedCase, mask: _Mask) -> Rows:
    generator = torch.Generator().manual_seed(1)
    size = (case.configuration.tokens, sum(case.spec.sizes), case.spec.head_dim)
    qkv = torch.randn(size, generator=generator).to(setup.dtype)
    oracle = expected(qkv, case)
    columns: dict[str, Value] = {
        "head_dim": case.spec.head_dim,
        "mask": mask.name,
        "longest": max(case.lengths),
    }
    backends = list(_backends(setup, case.spec))
    if not backends:
        yield Row("Attention: errors", {"backend": "none", **columns, "passes": False})
    for name, backend in backends:
        error = _error(setup, backend, case, (qkv, oracle))
        yield Row("Attention: errors", {"backend": name, **columns, **error})


def _error(
    setup: Setup, backend: AttentionBackend, case: RaggedCase, known: tuple[Tensor, Tensor]
) -> dict[str, Value]:
    """The largest of the sequences whose neighbours hold NaN."""
    qkv, oracle = known
    device = setup.device
    try:
        run = RaggedRun(device, backend, case, _moved(setup, poisoned(qkv, case.lengths)))
        device.run(run.run)
        rows = computed(device, lambda: run.out.float().cpu())
    except Exception as error:
        return _fault(error)
    owners = np.repeat(np.arange(len(case.lengths)), case.lengths)
    sound = torch.from_numpy(owners % 2 == 0)
    error_ = (rows[: owners.size] - oracle)[sound].abs().max().item()
    return {"max_error": error_, "passes": error_ <= _MAX_ERROR}


@dataclass(frozen=True)
class _Layer:
    of: str
    heads: int
    head_dim: int
    mask: _Mask


_LAYERS = (
    _Layer("Qwen3 0.6B", 16, 128, _Mask("causal, shared keys", causal=True, shared=2)),
    _Layer("pplx 0.6B", 16, 128, _Mask("full, shared keys", shared=2)),
    _Layer("bge-m3", 16, 64, _Mask("full")),
    _Layer("MiniLM", 12, 32, _Mask("full")),
    _Layer("ModernBERT, local", 12, 64, _Mask("± 64", window=64)),
    _Layer("MPNet", 12, 64, _Mask("bias", added="bias")),
    _Layer("EmbeddingGemma, global", 4, 256, _Mask("full", shared=4)),
)


def _speeds(setup: Setup) -> Rows:
    for layer in _LAYERS:
        spec = layer.mask.spec(layer.head_dim, layer.heads)
        backends = list(_backends(setup, spec))
        for load in setup.sizes.attention_loads:
            case = RaggedCase(spec, load.lengths)
            for name, backend in backends:
                columns: dict[str, Value] = {"layer": layer.of, "load": load.name, "backend": name}
                yield Row("Attention: speed", columns | _speed(setup, backend, case))


def _speed(setup: Setup, backend: AttentionBackend, case: RaggedCase) -> dict[str, Value]:
    spec = case.spec
    size = (case.configuration.tokens, sum(spec.sizes), spec.head_dim)
    effort = replace(setup.sizes.effort, timed_s=setup.sizes.effort.timed_s / 5)
    try:
        qkv = computed(
            setup.device, lambda: torch.randn(size, device=setup.device.place).to(setup.dtype)
        )
        run = RaggedRun(setup.device, backend, case, qkv)
        seconds = time_kernels(setup.device, [run.run] * _IN_TURN, effort)
        prepare_s = time_host(run.prepare, effort)
        setup.device.synchronize()
    except Exception as error:
        return _fault(error)
    if spec.window is not None:  # what it may leave out is not counted
        return {"device_us": seconds * 1e6, "prepare_us": prepare_s * 1e6}
    flop_per_s = case.flop / seconds
    return {
        "device_us": seconds * 1e6,
        "prepare_us": prepare_s * 1e6,
        "tflop_per_s": flop_per_s / 1e12,
        "of_peak": flop_per_s / PEAK_FLOP_PER_S,
    }


def _backends(setup: Setup, spec: AttentionSpec) -> Iterator[tuple[str, AttentionBackend]]:
    """Those that can: the machine's part says why others cannot."""
    spec = on_device(spec, setup.device)  # a backend is tried when it is loaded
    available = setup.installed(Layers((spec,), setup.dtype, setup.device))
    for name in NAMES:
        backend = available.get(name, "")
        if not isinstance(backend, str) and backend.caps.lacks(spec, setup.dtype) is None:
            yield name, backend


def _moved(setup: Setup, qkv: Tensor) -> Tensor:
    return computed(setup.device, lambda: qkv.to(setup.device.place))


def _fault(error: Exception) -> dict[str, Value]:
    """A backend that fails does not keep the others from being measured, if the device lives."""
    if is_sticky(error):
        raise error
    return {"passes": False, "fault": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
