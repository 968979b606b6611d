"""How each library is asked for the ids of texts. Imported in an environment that has them all.

A library takes the bytes of a tokenizer.json and returns a function from texts to the ids of each,
in whatever it gives ids in, lists or arrays: one thread, no special tokens.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Encode = Callable[[list[str]], Sequence[Any]]


@dataclass(frozen=True)
class Library:
    load: Callable[[bytes], Encode]
    package: str
    # Some refuse a file without special tokens; they can be told not to look for them in a text.
    wants_special_tokens: bool = False


def _ours(data: bytes) -> Encode:
    from checkpoint.tokenizer import TextTokenizer

    return TextTokenizer(data, 1_000_000, 1_000_000)._tokenize


def _tokenizers(data: bytes) -> Encode:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(data)
    return lambda texts: [
        encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    ]


def _kitoken(data: bytes) -> Encode:
    from kitoken import Kitoken

    tokenizer = Kitoken.from_tokenizers(data)
    return lambda texts: tokenizer.encode_all(texts, False)


def _tokie(data: bytes) -> Encode:
    import numpy as np
    from tokie import Tokenizer

    tokenizer = Tokenizer.from_json(_file(data))

    def encode(texts: list[str]) -> Sequence[Any]:
        ids, lengths = tokenizer.encode_batch_flat(texts, False)
        return np.split(ids, np.cumsum(lengths[:-1].astype(np.int64)))

    return encode


def _morpheme(data: bytes) -> Encode:
    from morpheme import Tokenizer

    tokenizer = Tokenizer.from_str(data.decode())
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts, False)]


def _splintr(data: bytes) -> Encode:
    import splintr

    encode: Encode = splintr.from_json_bytes(data).encode_batch
    return encode


def _snaptokens(data: bytes) -> Encode:
    from snaptokens import Tokenizer

    tokenizer = Tokenizer.from_json_str(data.decode())
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def _fastokens(data: bytes) -> Encode:
    from fastokens import Tokenizer

    tokenizer = Tokenizer.from_json_str(data.decode())
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def _gigatoken(data: bytes) -> Encode:
    from gigatoken import Tokenizer

    tokenizer = Tokenizer.from_json(data)
    return lambda texts: tokenizer.encode_batch_list(texts, parallel=False)


def _nanotoken(data: bytes) -> Encode:
    from nanotoken import WordPieceTokenizer

    encode: Encode = WordPieceTokenizer.from_json(data).encode_batch_list
    return encode


def _budtiktok(data: bytes) -> Encode:
    from budtiktok import Tokenizer

    tokenizer = Tokenizer.from_str(data.decode())
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts, False)]


def _tuetoken(data: bytes) -> Encode:
    from tuetoken import AutoTokenizer

    tokenizer = AutoTokenizer.from_file(_file(data))
    return lambda texts: [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def _file(data: bytes) -> str:
    path = Path(tempfile.mkdtemp()) / "tokenizer.json"
    path.write_bytes(data)
    return str(path)


OURS, REFERENCE = "florilege", "tokenizers"
LIBRARIES: Mapping[str, Library] = {
    REFERENCE: Library(_tokenizers, "tokenizers"),
    OURS: Library(_ours, "florilege"),
    "tokie": Library(_tokie, "tokie"),
    "gigatoken": Library(_gigatoken, "gigatoken"),
    "splintr": Library(_splintr, "splintr-rs"),
    "nanotoken": Library(_nanotoken, "nanotoken"),
    "fastokens": Library(_fastokens, "fastokens"),
    "snaptokens": Library(_snaptokens, "snaptokens"),
    "tuetoken": Library(_tuetoken, "tuetoken"),
    "kitoken": Library(_kitoken, "kitoken", wants_special_tokens=True),
    "morpheme": Library(_morpheme, "morpheme"),
    "budtiktok": Library(_budtiktok, "budtiktok"),
}
