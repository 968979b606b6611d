"""What the GPU bench measures, so small that a CPU is through with it in seconds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from reference_attention import ReferenceAttention
from simulated_device import SimulatedDevice

from bench.gpu.checkpoints import Checkpoints
from bench.gpu.closeness import Vectors
from bench.gpu.loads import Ids, batch_of, mixed, uniform
from bench.gpu.peer import Embed
from bench.gpu.setup import Setup, Sizes
from bench.gpu.shapes import BGE_M3, MINILM, PPLX, QWEN3, ModelShape
from bench.gpu.timing import Effort
from engine.engine import Engine, EngineConfig

SMALL_BERT: dict[str, Any] = {
    "layers": 2,
    "width": 48,
    "heads": 3,
    "kv_heads": 3,
    "head_dim": 16,
    "mlp_width": 80,
}
SMALL_QWEN3: dict[str, Any] = SMALL_BERT | {"heads": 4, "kv_heads": 2}
SMALL: dict[str, Any] = {"vocabulary": 97, "max_tokens": 320}
SMALL_MODELS = (
    replace(MINILM, **SMALL_BERT, **SMALL),
    replace(BGE_M3, **SMALL_BERT, **SMALL),
    replace(QWEN3, **SMALL_QWEN3, **SMALL),
    replace(PPLX, **SMALL_QWEN3, **SMALL),
)
LOADS = (uniform(1, 8), uniform(3, 8), uniform(20, 33))
SMALL_SIZES = Sizes(
    loads=(*LOADS, uniform(2, 321)),  # the last is longer than the models are
    profiled_loads=LOADS[1:2],
    peer_loads=(LOADS[1], mixed("5 mixed", (1, 2, 3, 9, 20))),
    peer_batches=(2, 4),
    client_loads=(uniform(6, 20),),
    client_s=0.02,
    head_dims=(16, 8),
    short_lengths=(5, 3, 0, 2, 30),
    long_lengths=(70, 3),
    attention_loads=(uniform(2, 20),),
    product_tokens=(1, 20),
    product_bytes=40_000,
    replays=((128, 32), (256, 1)),
    compared_lengths=(1, 5, 40),
    cpu_lengths=(5, 17),
    graphs=5,
    graph_tokens=256,
    copied_bytes=1000,
    latency_runs=4,
    effort=Effort(timed_s=0.002, least_runs=1, most_runs=3),
)


def small_setup(directory: Path, device: SimulatedDevice, attention: ReferenceAttention) -> Setup:
    """Without a peer. Engines that it loads look their attention up by themselves."""
    return Setup(
        device=device,
        models=SMALL_MODELS,
        checkpoints=Checkpoints(directory, device.place),
        config=EngineConfig(dtype="float32", kernels="plain", max_batch_tokens=256),
        sizes=SMALL_SIZES,
        installed=lambda _: {"triton": attention, "fa4": "is not installed: it is a fake"},
    )


class CpuPeer:
    """Stands in for another library: our engine on the CPU, which it loads anew each time."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.sizes: list[int] = []  # texts at a time that were asked for

    def __call__(
        self, directory: Path, shape: ModelShape, place: torch.device, dtype: torch.dtype
    ) -> Embed:
        assert (directory / "modules.json").exists()
        spec, files = self._checkpoints.spec(shape), self._checkpoints.files(shape)
        config = EngineConfig(device="cpu", dtype="float32", kernels="plain")
        engine = Engine.load(spec, files, config)

        def embed(texts: Sequence[Ids], size: int) -> Vectors:
            self.sizes.append(size)
            return engine.step(batch_of(texts)).wait().rows

        return embed
