"""The compiled tokenizer: ids of most texts, many times as fast as `tokenizers`, and the same.

It knows Unigram with SentencePiece's normalizer and WordPiece with BERT's. A text that it does not
cover (see `character_table`) is left to `tokenizers`, and so are all where it was not compiled at
install, or gives other ids than `tokenizers` in the check at start.
"""

import ctypes
import logging
import weakref
from collections.abc import Mapping, Sequence
from ctypes import c_double, c_int, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from checkpoint.character_table import (
    CharacterTable,
    NotCovered,
    joins_spaces,
    splits_at_space,
    unigram_table,
    wordpiece_table,
)
from checkpoint.compiled import compiled_library
from checkpoint.encoded import Ids

_log = logging.getLogger(__name__)

# Texts for the check at start; every character of the table comes besides.
_CHECKED = (
    "The quick brown fox jumps over the lazy dog.",
    "  two  spaces, ▁ ▁▁a▁b and\ta tab\r\nand a line\n\n",
    "naïve façade Łódź ẞ Ǆ İ ﬁ ½ № … ＡＢ ㎏ don't [CLS] <s> </s> <mask> ##ing",
    "日本語のテキスト。カタカナ 中文字符 한국어 문장입니다 ภาษาไทย שלום مرحبا हिन्दी 😀🦊",
    "a" * 99
    + " "
    + "b" * 100
    + " "
    + "c" * 101
    + " "
    + "漢" * 120
    + " antidisestablishmentarianism",
)
_MOST_CHARACTERS = 2**31 - 1  # of a word, as pieces.cpp counts them
_UNKNOWN_PENALTY = 10.0  # below the lowest score of a piece, as SentencePiece has it


class _Setup(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("keys", "ends", "ids")),
        ("pieces", c_int64),
        *((name, c_void_p) for name in ("later_keys", "later_ends", "later_ids")),
        ("later_pieces", c_int64),
        ("scores", c_void_p),
        ("unknown_score", c_double),
        ("entries", c_void_p),
        ("entry_count", c_int64),
        ("runs", c_void_p),
        ("run_bytes", c_int64),
        ("line_break", c_uint32),
        *(
            (name, c_int32)
            for name in ("unknown_id", "max_characters", "splits_at_space", "joins_spaces")
        ),
    )


class PieceEncoder:
    """A vocabulary, and what is made of characters before it is asked. Threads share it."""

    def __init__(self, library: Any, setup: _Setup) -> None:
        self._encode = library.encode
        self._vocabulary = library.vocabulary_new(ctypes.byref(setup))
        if not self._vocabulary:
            raise MemoryError("no memory for a vocabulary")
        weakref.finalize(self, library.vocabulary_delete, self._vocabulary)

    def encode(self, texts: Sequence[str]) -> list[Ids | None]:
        """The ids of each text, without special tokens; None for a text that is not covered.

        Releases the GIL. Raises UnicodeEncodeError for a lone surrogate.
        """
        data = [text.encode() for text in texts]
        whole = b"".join(data)
        # Arrays of ctypes: for one text they cost less than numpy's.
        sizes = c_int64 * len(data)
        ends, counts = sizes(*accumulate(map(len, data))), sizes()
        # A piece takes a byte at least, and each text begins with "▁"; what characters become may
        # be longer, rarely.
        ids = np.empty(len(whole) + 2 * len(data), np.int32)
        if self._encode(
            *(self._vocabulary, whole, ends, len(data), ids.ctypes.data, ids.size, counts)
        ):
            raise MemoryError("no memory to tokenize")
        rows: list[Ids | None] = []
        start = 0
        for count in counts:
            rows.append(None if count < 0 else ids[start : start + count])
            start += max(count, 0)
        return rows


def piece_encoder(parsed: Mapping[str, Any], tokenizer: Tokenizer) -> PieceEncoder | None:
    """Of a tokenizer.json as it is served. None where `tokenizers` must do all."""
    path = compiled()
    if path is None:
        return None
    try:
        encoder, characters = _built(_load(path), parsed)
    except NotCovered as reason:
        _log.debug("tokenizers tokenizes: %s", reason)
        return None
    except (LookupError, TypeError, ValueError) as error:  # a file that leaves out what it may
        _log.debug("tokenizers tokenizes: not written as is known: %r", error)
        return None
    except (OSError, AttributeError) as error:
        _log.warning("tokenizers tokenizes: %s cannot be loaded: %s", path.name, error)
        return None
    wrong = _differing(encoder, tokenizer, characters)
    if wrong is not None:
        _log.warning("tokenizers tokenizes: the compiled tokenizer differs in check %d", wrong)
        return None
    return encoder


def compiled() -> Path | None:
    return compiled_library(Path(__file__).parent, "_pieces")


@cache
def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    library.vocabulary_new.argtypes = (c_void_p,)
    library.vocabulary_new.restype = c_void_p
    library.vocabulary_delete.argtypes = (c_void_p,)
    library.vocabulary_delete.restype = None
    library.encode.argtypes = (
        *(c_void_p, ctypes.c_char_p, c_void_p, c_int64),
        *(c_void_p, c_int64, c_void_p),
    )
    library.encode.restype = c_int
    return library


def _built(library: Any, parsed: Mapping[str, Any]) -> tuple[PieceEncoder, str]:
    """And the characters of its table. Raises NotCovered."""
    if not all(token["special"] for token in parsed.get("added_tokens", ())):
        raise NotCovered("added tokens that are no special ones")
    model = parsed["model"]
    if model.get("type") == "Unigram":
        table = unigram_table(parsed)
        setup, kept = _unigram(model)
        setup.splits_at_space, setup.joins_spaces = splits_at_space(parsed), joins_spaces(parsed)
    elif model.get("type") == "WordPiece":
        table = wordpiece_table(parsed)
        setup, kept = _wordpiece(model)
    else:
        raise NotCovered(f"model: {model.get('type')}")
    kept.append(_put_table(setup, table))
    # All is copied in here: only then may what `kept` holds go.
    return PieceEncoder(library, setup), table.characters


def _unigram(model: Mapping[str, Any]) -> tuple[_Setup, list[object]]:
    pieces = {piece: index for index, (piece, _) in enumerate(model["vocab"])}
    if len(pieces) < len(model["vocab"]) or "" in pieces:
        raise NotCovered("pieces that are there twice, or empty")
    if model.get("byte_fallback") or model.get("unk_id") is None:
        raise NotCovered("bytes for unknown characters, or no piece for them")
    scores = np.array([score for _, score in model["vocab"]], np.float64)
    # Logarithms of probabilities. Were they above 0, a run of unknown characters could be worth
    # more than a piece that is the same text.
    if scores.min() > 0:
        raise NotCovered("scores above 0")
    # Tokens of what is unknown are joined, and what they are together may be a piece again.
    unknown, _ = model["vocab"][model["unk_id"]]
    if any(unknown in piece for piece in pieces if piece != unknown):
        raise NotCovered("pieces with the unknown one in them")
    setup = _Setup(unknown_id=model["unk_id"], unknown_score=scores.min() - _UNKNOWN_PENALTY)
    setup.scores = scores.ctypes.data
    return setup, [scores, *_put_pieces(setup, pieces), *_put_pieces(setup, {}, "later_")]


def _wordpiece(model: Mapping[str, Any]) -> tuple[_Setup, list[object]]:
    pieces, prefix = model["vocab"], model["continuing_subword_prefix"]
    most = min(model["max_input_chars_per_word"], _MOST_CHARACTERS)
    setup = _Setup(unknown_id=pieces[model["unk_token"]], max_characters=most)
    later = {
        piece.removeprefix(prefix): token
        for piece, token in pieces.items()
        if piece.startswith(prefix)
    }
    for vocabulary in (pieces, later):
        vocabulary.pop("", None)
    return setup, [*_put_pieces(setup, pieces), *_put_pieces(setup, later, "later_")]


def _put_pieces(setup: _Setup, pieces: Mapping[str, int], prefix: str = "") -> list[object]:
    """What must live until the vocabulary is made."""
    ordered = sorted((piece.encode(), token) for piece, token in pieces.items())
    keys = b"".join(key for key, _ in ordered)
    ends = np.fromiter(accumulate(len(key) for key, _ in ordered), np.int64, len(ordered))
    ids = np.fromiter((token for _, token in ordered), np.int32, len(ordered))
    array = np.frombuffer(keys, np.uint8)
    for name, values in (("keys", array), ("ends", ends), ("ids", ids)):
        setattr(setup, prefix + name, values.ctypes.data)
    setattr(setup, f"{prefix}pieces", len(ordered))
    return [keys, array, ends, ids]


def _put_table(setup: _Setup, table: CharacterTable) -> object:
    runs = np.frombuffer(table.runs, np.uint8)
    setup.entries, setup.entry_count = table.entries.ctypes.data, table.entries.size
    setup.runs, setup.run_bytes = runs.ctypes.data, runs.size
    setup.line_break = table.line_break
    return runs


def _differing(encoder: PieceEncoder, tokenizer: Tokenizer, characters: str) -> int | None:
    """The first text of the check of which the ids are others; None if all are the same."""
    # Each character behind one that SentencePiece's normalizer would change together with whatever
    # joins it; for WordPiece, where a word with an unknown character is unknown, each by itself.
    texts = [*_CHECKED]
    before = "" if type(tokenizer.model) is WordPiece else "ª"
    for start in range(0, len(characters), 256):
        part = characters[start : start + 256]
        texts.append(f" {before}".join(part))
    expected = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    for index, (row, right) in enumerate(zip(encoder.encode(texts), expected, strict=True)):
        if row is not None and row.tolist() != right.ids:
            return index
    return None
