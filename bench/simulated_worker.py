"""`florilege worker` on a device that only waits: `python -m bench.simulated_worker --help`."""

from functools import partial
from typing import Annotated

import typer

from bench.simulated_engine import FAULTS, SimulatedDevice
from cli.flags import WORKER
from cli.options import with_settings
from cli.process import run_process
from cli.settings import Settings
from cli.worker import serve

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
@with_settings(WORKER, admin_port=8002)
def worker(
    settings: Settings,
    tokens_per_s: Annotated[float, typer.Option(help="Speed of the device")] = 1e6,
    step_s: Annotated[float, typer.Option(help="What a step takes beside its tokens")] = 0.001,
    fault: Annotated[
        list[str] | None, typer.Option(help=f"TOKEN_ID={'|'.join(FAULTS)}: what that token does")
    ] = None,
) -> None:
    """Serve models whose rows follow from the token ids alone."""
    device = SimulatedDevice(tokens_per_s, step_s, faults=_faults(fault or []))
    run_process(partial(serve, load=device.load), settings)


def _faults(items: list[str]) -> dict[int, str]:
    faults = {}
    for item in items:
        token, _, fault = item.partition("=")
        if not token.isdecimal() or fault not in FAULTS:
            raise typer.BadParameter(f"expected TOKEN_ID={'|'.join(FAULTS)}: {item}")
        faults[int(token)] = fault
    return faults


if __name__ == "__main__":
    app()
