"""The command line: `florilege --help`."""

import json
import subprocess
import sys

import typer

from cli import db, keys
from cli.calibrate import calibrate
from cli.flags import ALL, GATEWAY, SERVE, WORKER
from cli.options import with_settings
from cli.process import run_process
from cli.settings import Settings
from cli.usage import usage

app = typer.Typer(
    help="OpenAI-compatible embeddings and rerank.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its tracebacks show local variables: texts and keys
)
app.add_typer(keys.app, name="keys")
app.command()(usage)
app.add_typer(db.app, name="db")
app.command()(calibrate)


@app.command()
@with_settings(SERVE)
def serve(settings: Settings) -> None:
    """Serve models: gateway and worker in one process."""
    from cli.serve import serve

    run_process(serve, settings)


@app.command()
@with_settings(GATEWAY)
def gateway(settings: Settings) -> None:
    """Answer HTTP for the models of the workers at the same Redis."""
    from cli.gateway import serve

    run_process(serve, settings)


@app.command()
@with_settings(WORKER, admin_port=8002)
def worker(settings: Settings) -> None:
    """Run models for the gateways at the same Redis."""
    from cli.worker import serve

    run_process(serve, settings)


@app.command("check-config")
@with_settings(ALL)
def check_config(settings: Settings) -> None:
    """Print the effective settings, secrets hidden."""
    typer.echo(json.dumps(settings.redacted(), indent=2))


@app.command(
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    }
)
def bench(context: typer.Context) -> None:
    """Measure a server: runs `python -m bench` with the same arguments."""
    command = [sys.executable, "-m", "bench", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)  # noqa: S603
