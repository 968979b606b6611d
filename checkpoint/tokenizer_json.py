"""tokenizer.json loaded for serving: nothing padded or cut, special tokens never read from text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from checkpoint.characters import later_ids
from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.layout import parts_before_space
from checkpoint.pieces import PieceEncoder, piece_encoder


@dataclass(frozen=True, eq=False)
class LoadedTokenizer:
    tokenizer: Tokenizer  # to which the names of special tokens are text
    specials: Mapping[str, int]  # their ids by name
    later_ids: frozenset[int]  # of tokens that begin within a character
    pieces: PieceEncoder | None  # the same ids, for what it covers
    parts_before_space: bool  # see `layout.parts_before_space`


def load_tokenizer(tokenizer_json: bytes, vocab_size: int) -> LoadedTokenizer:
    """Raises UnsupportedCheckpoint for a broken file, or ids that the model has no row for.

    A special token's name within a text is text (docs/decisions/0002-special-tokens-are-text.md).
    """
    try:
        parsed = json.loads(tokenizer_json)
        _check_ids(parsed, vocab_size)
        specials = {
            token["content"]: token["id"]
            for token in parsed.get("added_tokens", ())
            if token["special"]
        }
        later = later_ids(parsed)
        if parsed["model"].get("type") == "Unigram":
            _hide_special_pieces(parsed)
            tokenizer_json = json.dumps(parsed, ensure_ascii=False).encode()
        tokenizer = Tokenizer.from_buffer(tokenizer_json)
        tokenizer.encode("\U0010fffd")  # raises where an unknown character has no token
    except UnsupportedCheckpoint:
        raise
    # tokenizers raises bare Exception; a file of another shape, whatever it runs into.
    except Exception as error:
        raise UnsupportedCheckpoint(f"tokenizer.json is of no use: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    pieces = piece_encoder(parsed, tokenizer)
    return LoadedTokenizer(tokenizer, specials, later, pieces, parts_before_space(parsed))


def _check_ids(parsed: Mapping[str, Any], vocab_size: int) -> None:
    """No id that a text can give may lie beyond the embedding table."""
    vocab = parsed["model"]["vocab"]
    highest = len(vocab) - 1 if isinstance(vocab, list) else max(vocab.values())
    for token in parsed.get("added_tokens", ()):
        if not token["special"]:
            highest = max(highest, token["id"])
    if highest >= vocab_size:
        raise UnsupportedCheckpoint(
            f"tokenizer.json has token id {highest}, the model's vocab_size is {vocab_size}"
        )


def _hide_special_pieces(parsed: dict[str, Any]) -> None:
    """Unigram keeps special tokens among its pieces, with the best score there is: "</s>" in a text
    would become the separator even where added tokens are not matched. A piece that begins with a
    space cannot match, since the pre-tokenizer leaves none. Ids stay as they are.
    """
    pieces = parsed["model"]["vocab"]
    kept = []
    for token in parsed.get("added_tokens", ()):
        if not token["special"]:
            kept.append(token)
        elif token["id"] < len(pieces):
            pieces[token["id"]][0] = " " + token["content"]
    parsed["added_tokens"] = kept
