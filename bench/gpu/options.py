"""The command line of `python -m bench gpu`."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.parts import PARTS
from bench.gpu.shapes import MODELS

_DESCRIPTION = (
    "Measure the engine on a GPU, with random weights of real shapes. Needs torch and safetensors; "
    "compares with sentence-transformers and with libraries of attention where they are installed."
)


@dataclass(frozen=True)
class Options:
    directory: Path
    seconds: float
    parts: tuple[str, ...]
    models: tuple[str, ...]
    device: int


def parse(arguments: Sequence[str]) -> Options:
    """Exits with a message for a command line that cannot be."""
    given = _parser().parse_args(arguments)
    return Options(given.out, given.seconds, given.parts, given.models, given.device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench gpu", description=_DESCRIPTION)
    add = parser.add_argument
    add(
        "--out", type=Path, default=Path("build/gpu"), metavar="DIR", help="for gpu.json and gpu.md"
    )
    add("--seconds", type=float, default=400.0, help="of the whole run, about (%(default)s)")
    parts, models = tuple(PARTS), tuple(MODELS)
    add("--parts", type=_names_of(parts), default=parts, metavar="PARTS", help=",".join(parts))
    add("--models", type=_names_of(models), default=models, metavar="MODELS", help=",".join(models))
    add("--device", type=int, default=0, metavar="N", help="cuda:N (%(default)s)")
    return parser


def _names_of(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        """In the order of a run, whichever they are given in."""
        given = text.split(",")
        for name in given:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return tuple(name for name in known if name in given)

    return names
