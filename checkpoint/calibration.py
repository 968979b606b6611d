"""The range of each dimension over a set of texts, for int8 and uint8 answers.

A file beside the model (or anywhere): `{"dim": D, "texts": N, "ranges": [[low, high], …]}`, where
float32 values of unit rows or of raw ones stand as the model answers them by default.
"""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

from checkpoint.errors import CheckpointError
from checkpoint.json_file import read_object

FILE_NAME = "florilege_calibration.json"

Ranges = tuple[tuple[float, float], ...]  # (low, high) per dimension


def read_calibration(path: Path, dim: int) -> Ranges:
    """Raises CheckpointError, naming the file, unless there are `dim` ranges of finite ends."""
    ranges = read_object(path).get("ranges")
    if not isinstance(ranges, list) or len(ranges) != dim:
        count = len(ranges) if isinstance(ranges, list) else "no"
        raise CheckpointError(f"{path} has {count} ranges, the model has {dim} dimensions")
    return tuple(_range(path, index, ends) for index, ends in enumerate(ranges))


def write_calibration(path: Path, ranges: Sequence[tuple[float, float]], texts: int) -> None:
    """Raises CheckpointError for a range that `read_calibration` would refuse.

    `texts`: how many were measured. The file is replaced as a whole: a server that starts meanwhile
    reads the old one or the new one.
    """
    checked = [_range(path, index, list(ends)) for index, ends in enumerate(ranges)]
    content = {"dim": len(checked), "texts": texts, "ranges": checked}
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(content) + "\n")
    unfinished.replace(path)


def _range(path: Path, index: int, ends: object) -> tuple[float, float]:
    numbers = isinstance(ends, list) and all(type(end) in (int, float) for end in ends)
    if not isinstance(ends, list) or not numbers or len(ends) != 2:
        raise CheckpointError(f"{path}: range {index} is not [low, high]")
    low, high = float(ends[0]), float(ends[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise CheckpointError(f"{path}: range {index} is [{low}, {high}]: low must be below high")
    return low, high
