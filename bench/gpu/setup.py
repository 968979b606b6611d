"""What all parts measure with: a device, models and sizes. Tests give small ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch

from bench.gpu.checkpoints import Checkpoints
from bench.gpu.forward import Forward, load_forward
from bench.gpu.loads import Load, mixed, uniform
from bench.gpu.peer import LoadPeer, load_sentence_transformers
from bench.gpu.shapes import ModelShape
from bench.gpu.timing import Effort
from bench.texts import mixed_lengths
from engine.backends.backend import Layers
from engine.backends.choice import Available, Preference, choose
from engine.backends.load import Installed
from engine.device.device import Device
from engine.engine import Engine
from engine.runtime import EngineConfig, Runtime, settle


def _loads() -> tuple[Load, ...]:
    """What takes longest last: a run that is cut short lacks it."""
    sizes = [(1, 128), (1, 512), (5, 512), (25, 512), (50, 512), (100, 512)]
    sizes += [(1, 4096), (100, 1024), (100, 4096)]
    return tuple(uniform(texts, tokens) for texts, tokens in sizes)


def _peer_loads() -> tuple[Load, ...]:
    lengths = mixed_lengths()
    first = [uniform(1, 128), uniform(1, 512), uniform(25, 512), uniform(100, 512)]
    return (*first, mixed(f"{len(lengths)} mixed", lengths), uniform(100, 1024))


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    loads: tuple[Load, ...] = field(default_factory=_loads)
    profiled_loads: tuple[Load, ...] = (uniform(1, 128), uniform(50, 512))
    peer_loads: tuple[Load, ...] = field(default_factory=_peer_loads)
    peer_batches: tuple[int, ...] = (8, 32, 128)  # texts at a time
    client_loads: tuple[Load, ...] = tuple(uniform(100, tokens) for tokens in (512, 1024, 4096))
    client_s: float = 2.0  # timed, for each load
    head_dims: tuple[int, ...] = (64, 128, 32, 256)
    # Of which every other sequence is poisoned. Tiles differ between short texts and long ones.
    short_lengths: tuple[int, ...] = (129, 40, 1, 7, 0, 64, 300, 128, 0, 31, 200, 95)
    long_lengths: tuple[int, ...] = (2049, 600, 1500, 129, 700)
    attention_loads: tuple[Load, ...] = (uniform(1, 512), uniform(50, 512), uniform(8, 4096))
    product_tokens: tuple[int, ...] = (16, 64, 128, 256, 512, 1024, 2048)
    product_bytes: int = 256 << 20  # of weights in turn: more than the cache holds, as in a forward
    # Tokens and slots of graphs that many lengths are replayed by: of short texts and of long ones.
    replays: tuple[tuple[int, int], ...] = ((1024, 32), (8192, 8))
    compared_lengths: tuple[int, ...] = (1, 5, 33, 128, 300, 511)  # with float32
    cpu_lengths: tuple[int, ...] = (5, 17, 40, 64)  # with float32 on a CPU, which takes longer
    graphs: int = 50
    graph_tokens: int = 8192  # of the largest of them
    copied_bytes: int = 400_000  # as 100 rows of 1,024 dimensions have, or ids of 32k tokens
    latency_runs: int = 300
    effort: Effort = field(default_factory=Effort)


@dataclass(frozen=True, eq=False)
class Setup:
    device: Device
    models: tuple[ModelShape, ...]
    checkpoints: Checkpoints
    config: EngineConfig = field(default_factory=EngineConfig)
    sizes: Sizes = field(default_factory=Sizes)
    installed: Callable[[Layers], Available] = Installed
    load_peer: LoadPeer = load_sentence_transformers
    _engines: dict[ModelShape, Engine] = field(default_factory=dict, init=False)
    _forwards: dict[ModelShape, Forward] = field(default_factory=dict, init=False)

    @cached_property
    def runtime(self) -> Runtime:
        """What `auto` means on this device."""
        return settle(self.config, self.device)

    @property
    def dtype(self) -> torch.dtype:
        return self.runtime.kernels.dtype

    @property
    def step_tokens(self) -> int:
        return self.runtime.max_batch_tokens

    def engine(self, shape: ModelShape) -> Engine:
        """The engine as it serves, for all parts."""
        if shape not in self._engines:
            spec, files = self.checkpoints.spec(shape), self.checkpoints.files(shape)
            self._engines[shape] = Engine.load(spec, files, self.config, self.device)
        return self._engines[shape]

    def forward(self, shape: ModelShape) -> Forward:
        """The model without its engine, for all parts."""
        if shape not in self._forwards:
            spec, files = self.checkpoints.spec(shape), self.checkpoints.files(shape)
            loaded = load_forward(spec, files, self.runtime, self._attention)
            self._forwards[shape] = loaded
        return self._forwards[shape]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _attention(self, layers: Layers) -> Preference:
        available = self.installed(layers)
        return choose(layers.specs, layers.dtype, available, self.config.attention_backend)

    def fitting(self, loads: tuple[Load, ...], shape: ModelShape) -> list[Load]:
        """Those that the model has positions for."""
        return [load for load in loads if max(load.lengths) <= shape.max_tokens]
