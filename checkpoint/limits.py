"""How many tokens a sequence may have, and which file or flag says so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.errors import CheckpointError, UnsupportedCheckpoint
from checkpoint.families import Family
from checkpoint.json_file import read_object
from checkpoint.modules import SETTINGS_FILES


@dataclass(frozen=True)
class TokenLimit:
    tokens: int  # special tokens included
    source: str


def token_limit(
    directory: Path, config: Mapping[str, Any], family: Family, max_input_tokens: int | None
) -> TokenLimit:
    """The smaller of what the checkpoint asks for and the positions it has.

    sentence_bert_config.json comes before tokenizer_config.json, as in sentence-transformers. The
    truncation in tokenizer.json is left over from training and says nothing (all-MiniLM-L6-v2:
    128 there, 256 in fact). `max_input_tokens` replaces both, but no position is made up. Rotated
    positions have no table that ends; there the limit is the length the model was trained for.
    """
    where = directory / "config.json"
    first = _first_position(where, config, family)
    positions = _read_positions(where, config, family.positions) - first
    if positions < 1:
        raise UnsupportedCheckpoint(f"{where}: {family.positions[0]} leaves no position")
    if max_input_tokens is not None:
        most = _most(where, config, family, positions)
        if not 1 <= max_input_tokens <= most:
            raise CheckpointError(
                f"--max-input-tokens {max_input_tokens}: {directory.name} has {most} positions"
            )
        return TokenLimit(max_input_tokens, "--max-input-tokens")
    asked = _asked(directory)
    if asked is not None and asked.tokens <= positions:
        return asked
    return TokenLimit(positions, "config.json")


def _first_position(where: Path, config: Mapping[str, Any], family: Family) -> int:
    if family.first_position is not None:
        return family.first_position
    padding = config.get("pad_token_id", 1)  # transformers' default
    if type(padding) is not int:
        raise UnsupportedCheckpoint(f"{where}: pad_token_id {padding!r} gives no first position")
    return padding + 1


def _read_positions(where: Path, config: Mapping[str, Any], keys: Sequence[str]) -> int:
    key = next((key for key in keys if config.get(key) is not None), keys[0])
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise UnsupportedCheckpoint(f"{where}: {key} {value!r} leaves no position")
    return value


def _most(where: Path, config: Mapping[str, Any], family: Family, positions: int) -> int:
    if family.most_positions is None or config.get(family.most_positions) is None:
        return positions
    if config.get("rotary_scaling_factor") is not None:
        return positions  # beyond them, each sequence would have a rotation of its own
    return max(positions, _read_positions(where, config, [family.most_positions]))


def _asked(directory: Path) -> TokenLimit | None:
    for name, tokens in _answers(directory):
        # "No limit" is written as null or as int(1e30): the positions are smaller than that.
        if isinstance(tokens, int | float) and tokens >= 1:
            return TokenLimit(int(tokens), name)
    return None


def _answers(directory: Path) -> Iterator[tuple[str, Any]]:
    keys = dict.fromkeys(SETTINGS_FILES, "max_seq_length")
    for name, key in (*keys.items(), ("tokenizer_config.json", "model_max_length")):
        if (directory / name).is_file():
            yield name, read_object(directory / name).get(key)
