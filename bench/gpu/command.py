"""`python -m bench gpu`"""

import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.gpu.checkpoints import Checkpoints
from bench.gpu.options import parse
from bench.gpu.parts import PARTS
from bench.gpu.record import Record
from bench.gpu.run import Run
from bench.gpu.setup import Setup
from bench.gpu.shapes import MODELS
from engine.device.cuda import CudaDevice


def main(arguments: Sequence[str]) -> None:
    """Exits with 1 where a check did not pass, a part failed, or there is no GPU."""
    options = parse(arguments)
    if options.device >= torch.cuda.device_count():
        sys.exit(f"bench gpu: torch {torch.__version__} finds no device cuda:{options.device}")
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)7.0f ms %(message)s")
    device, record = CudaDevice(options.device), Record(options.directory, _say)
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as directory:
        setup = Setup(
            device=device,
            models=tuple(MODELS[name] for name in options.models),
            checkpoints=Checkpoints(Path(directory), device.place),
        )
        parts = [PARTS[name] for name in options.parts]
        Run(setup, record).measure(parts, options.seconds)
        setup.close()
    if record.faults:
        sys.exit("\n".join(["bench gpu: these did not pass:", *record.faults]))


def _say(text: str) -> None:
    print(text, flush=True)
