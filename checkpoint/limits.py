"""How many tokens a sequence may have, and which file or flag says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.errors import CheckpointError, UnsupportedCheckpoint
from checkpoint.families import Family
from checkpoint.json_file import read_object

# sentence-transformers once named this file after the model's class; it still reads them all.
SEQUENCE_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_camembert_config.json",
    "sentence_xlm-roberta_config.json",
)


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
    128 there, 256 in fact). `max_input_tokens` replaces both, but no position is made up.
    """
    positions = _positions(directory, config, family)
    if max_input_tokens is not None:
        if not 1 <= max_input_tokens <= positions:
            raise CheckpointError(
                f"--max-input-tokens {max_input_tokens}: {directory.name} has {positions} positions"
            )
        return TokenLimit(max_input_tokens, "--max-input-tokens")
    asked = _asked(directory)
    if asked is not None and asked.tokens <= positions:
        return asked
    return TokenLimit(positions, "config.json")


def _positions(directory: Path, config: Mapping[str, Any], family: Family) -> int:
    rows = config.get("max_position_embeddings")
    offset = 0
    if family.positions_after_padding:
        padding = config.get("pad_token_id", 1)  # transformers' default
        if type(padding) is not int:
            raise UnsupportedCheckpoint(
                f"{directory / 'config.json'}: pad_token_id {padding!r} gives no first position"
            )
        offset = padding + 1
    if type(rows) is not int or rows <= offset:
        raise UnsupportedCheckpoint(
            f"{directory / 'config.json'}: max_position_embeddings {rows!r} leaves no position"
        )
    return rows - offset


def _asked(directory: Path) -> TokenLimit | None:
    for name, key in (
        *((name, "max_seq_length") for name in SEQUENCE_CONFIGS),
        ("tokenizer_config.json", "model_max_length"),
    ):
        if not (directory / name).is_file():
            continue
        # "No limit" is written as null or as int(1e30): the positions are smaller than that.
        tokens = read_object(directory / name).get(key)
        if isinstance(tokens, int | float) and tokens >= 1:
            return TokenLimit(int(tokens), name)
    return None
