"""`florilege calibrate`: the range of each dimension over a set of texts, for int8 and uint8."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from api.gateway import GatewayConfig
from api.sharding import ShardSize, split
from api.text_encoding import TextEncoding
from api.vectors import VectorForm, finish
from checkpoint.calibration import FILE_NAME, Ranges, write_calibration
from checkpoint.errors import CheckpointError
from checkpoint.find import find_model
from checkpoint.prompts import prompt_of
from checkpoint.tokenizer import TextTokenizer
from cli.console import complain, say
from cli.loading import load_model
from cli.options import with_settings
from cli.settings import Settings

if TYPE_CHECKING:
    from worker.worker import LoadedModel

_FLAGS = ("device", "dtype", "kernels", "cpu_kernels", "max_batch_tokens", "max_input_tokens")


@with_settings(_FLAGS)
def calibrate(
    settings: Settings,
    model: Annotated[str, typer.Argument(help="DIR_OR_HUB_ID")],
    texts: Annotated[Path, typer.Argument(help="A file of texts like those to come, one a line")],
    output: Annotated[
        Path | None, typer.Option(help=f"Default {FILE_NAME} in the model's directory")
    ] = None,
) -> None:
    """Measure what range each dimension has, so that int8 answers use all of it."""
    from engine.errors import EngineError

    try:
        lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not lines:
            raise CheckpointError(f"{texts} holds no text")
        loaded = load_model(settings, model)
        ranges = measure_ranges(loaded, lines)
        path = output or find_model(model).directory / FILE_NAME
        write_calibration(path, ranges, len(lines))
    except (CheckpointError, EngineError, OSError, UnicodeDecodeError) as error:
        complain(error)
        raise typer.Exit(1) from None
    say(f"{len(ranges)} ranges of {len(lines)} texts: {path}")


def measure_ranges(model: "LoadedModel", texts: list[str]) -> Ranges:
    """(low, high) of each dimension, as the model answers floats by default.

    The same for every family: it sees tokens in and rows out. Raises CheckpointError for a model
    that needs no ranges, or too few texts to tell two of them apart.
    """
    from engine.batch import Batch

    spec = model.spec
    if spec.task != "embed" or spec.quantizer is not None:
        raise CheckpointError(f"{spec.id} has no float vectors to calibrate")
    tokenizer = TextTokenizer(model.tokenizer_json, spec.max_tokens, spec.vocab_size)
    prompt = prompt_of(spec)
    encoding = TextEncoding(spec, prompt, truncate=True)
    lows = np.full(spec.dim, np.inf)
    highs = np.full(spec.dim, -np.inf)
    for shard in split(
        encoding.texts(tokenizer, texts),
        ShardSize(spec.shard_tokens, GatewayConfig.max_shard_sequences),
    ):
        batch = Batch("embed", shard.input_ids, shard.lengths, shard.type_ids, shard.spans)
        rows = finish(model.engine.step(batch).wait().rows, spec, VectorForm())
        lows = np.minimum(lows, rows.min(axis=0))
        highs = np.maximum(highs, rows.max(axis=0))
    return tuple((float(low), float(high)) for low, high in zip(lows, highs, strict=True))
