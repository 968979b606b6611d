"""A model's forward without the engine around it: what a graph holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.gpu.timing import capture
from checkpoint.spec import ModelFiles, ModelSpec
from engine.backends.backend import Layers
from engine.backends.choice import Preference
from engine.batch import Batch
from engine.device.buckets import Configuration, seqlen_bucket, slot_bucket, token_bucket
from engine.device.device import Device, Graph
from engine.device.graphs import GraphLimits, Graphs
from engine.device.graphs import Program as Captured
from engine.device.program import Equipment, ModelProgram
from engine.errors import EngineError
from engine.load import load_model
from engine.runtime import Runtime

KIND = "embed"


@dataclass(frozen=True, eq=False)
class Forward:
    device: Device
    program: ModelProgram
    attention: Preference

    def route(self, graph_tokens: int) -> "Route":
        """Steps up to so many tokens are padded and captured, as the engine would; 0: none."""
        graphs = Graphs(
            self.device.graph_pool(),
            self.device,
            Captured(self.program.forward, self.program.upload_blank),
            GraphLimits(graph_tokens),
        )
        return Route(self, graphs)

    def padded(self, tokens: int, slots: int) -> Configuration:
        """One that any texts fit which have no more tokens and are no more."""
        bound = seqlen_bucket(tokens) if self.attention.bakes_max_seqlen else 0
        slot_count = slot_bucket(slots)
        if slot_count is None:
            raise EngineError(f"no graph has {slots} slots")
        return Configuration(KIND, token_bucket(tokens), slot_count, bound)

    def warm_up(self, configuration: Configuration) -> None:
        """Do all that a capture may not: compile, load, allocate."""
        self.program.upload_blank(configuration)
        self.device.run(partial(self.program.forward, configuration))
        self.device.synchronize()

    def capture(self, graph: Graph, configuration: Configuration) -> None:
        capture(graph, partial(self.program.forward, configuration))


@dataclass(frozen=True, eq=False)
class Route:
    """How steps get to the device."""

    forward: Forward
    graphs: Graphs

    def enqueue_all(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self.enqueue(batch)

    def enqueue(self, batch: Batch) -> None:
        """Upload and compute it. Rows stay on the device."""
        program = self.forward.program
        bound = int(batch.lengths.max()) if self.forward.attention.bakes_max_seqlen else 0
        configuration, padded = self.graphs.configure(KIND, batch.tokens, batch.sequences, bound)
        program.upload(configuration, batch)
        if not padded:
            program.run_exact(configuration)
            return
        self.graphs.launch(configuration)
        self.graphs.after_step(configuration)


def load_forward(
    spec: ModelSpec,
    files: ModelFiles,
    runtime: Runtime,
    attention_of: Callable[[Layers], Preference],
) -> Forward:
    """As `Engine.load` does, which takes memory and captures besides."""
    kernels, device = runtime.kernels, runtime.device
    if device is None:
        raise EngineError("a CPU captures nothing")
    model = load_model(spec, files, kernels)
    attention = attention_of(Layers(model.encoder.attention_specs, kernels.dtype, device))
    device.synchronize()  # the weights are there
    program = ModelProgram(Equipment(device, kernels, attention), model, runtime.max_batch_tokens)
    program.reserve_outputs(program.max_tokens)
    return Forward(device, program, attention)
