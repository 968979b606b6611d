"""What config.json says, read so that what is wrong is named."""

from collections.abc import Mapping
from typing import Any

from engine.errors import CheckpointError

Config = Mapping[str, Any]  # config.json


def required(config: Config, key: str) -> Any:
    value = config.get(key)
    if value is None:
        raise CheckpointError(f"config.json lacks {key!r}")
    return value


def integer(config: Config, key: str, default: int | None = None) -> int:
    """`default` is for what is absent or null; without one both are refused."""
    if default is not None and config.get(key) is None:
        return default
    value = required(config, key)
    if not isinstance(value, int) or isinstance(value, bool):
        kind = type(value).__name__
        raise CheckpointError(f"config.json: {key} is {value!r}, a {kind} and not an integer")
    return value


def refuse(config: Config, key: str, *allowed: Any) -> None:
    """Raise for a setting of another model than the one we compute. Absent is allowed."""
    value = config.get(key)
    if value is not None and value not in allowed:
        known = f", only {' or '.join(map(repr, allowed))}" if allowed else ""
        raise CheckpointError(f"config.json: {key} {value!r} is not known{known}")
