"""`florilege serve` on a device that only waits: `python -m bench.simulated_server --help`."""

from functools import partial
from typing import Annotated

import typer

from bench.simulated_engine import SimulatedDevice
from cli.flags import SERVE
from cli.options import with_settings
from cli.process import run_process
from cli.serve import serve as serve_embedded
from cli.settings import Settings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
@with_settings(SERVE)
def serve(
    settings: Settings,
    tokens_per_s: Annotated[float, typer.Option(help="Speed of the device")] = 1e6,
    step_s: Annotated[float, typer.Option(help="What a step takes beside its tokens")] = 0.001,
) -> None:
    """Gateway and worker in one process, with rows that follow from the token ids alone."""
    device = SimulatedDevice(tokens_per_s, step_s)
    run_process(partial(serve_embedded, load=device.load), settings)


if __name__ == "__main__":
    app()
