"""What a forward is made of. The last part: what was profiled once may run slower ever after."""

from functools import partial

from bench.gpu.loads import batches_of
from bench.gpu.parts.part import Row, Rows
from bench.gpu.profile import kernels_of
from bench.gpu.setup import Setup
from bench.gpu.shapes import ModelShape

_NAMED = 10  # of each forward, in the table


def measure(setup: Setup, shape: ModelShape) -> Rows:
    launched = setup.forward(shape).route(0)
    for load in setup.fitting(setup.sizes.profiled_loads, shape):
        batches = batches_of(load, shape.vocabulary, setup.step_tokens)
        kernels = kernels_of(setup.device, partial(launched.enqueue_all, batches))
        busy_s = sum(kernel.device_s for kernel in kernels)
        yield Row(
            "Kernels of a forward",
            {
                "model": shape.name,
                "load": load.name,
                "kernels": sum(kernel.launches for kernel in kernels),
                "aimed_at": shape.kernels,
                "busy_ms": busy_s * 1e3,
            },
        )
        for kernel in kernels[:_NAMED]:
            yield Row(
                "The longest kernels",
                {
                    "model": shape.name,
                    "load": load.name,
                    "kernel": kernel.name,
                    "launches": kernel.launches,
                    "busy_ms": kernel.device_s * 1e3,
                    "share": kernel.device_s / busy_s,
                },
            )
