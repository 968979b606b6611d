"""JSON files of a checkpoint, with errors that name the file."""

import json
from pathlib import Path
from typing import Any

from checkpoint.errors import CheckpointNotFound, UnsupportedCheckpoint


def read_object(path: Path) -> dict[str, Any]:
    """Raises CheckpointNotFound, or UnsupportedCheckpoint for what is no JSON object."""
    value = _read(path)
    if not isinstance(value, dict):
        raise UnsupportedCheckpoint(f"{path} holds no JSON object")
    return value


def read_objects(path: Path) -> list[dict[str, Any]]:
    """The same for an array of objects."""
    value = _read(path)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UnsupportedCheckpoint(f"{path} holds no JSON array of objects")
    return value


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise CheckpointNotFound(f"{path} is missing") from error
    except (ValueError, RecursionError) as error:
        raise UnsupportedCheckpoint(f"{path} is not JSON: {error}") from error
