"""Cutting rows of token ids to a length, never within a character."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from checkpoint.encoded import Ids

Side = Literal["left", "right"]

_LATER_BYTES = range(0x80, 0xC0)  # of a character in UTF-8: every byte but its first


def later_ids(tokenizer_json: Mapping[str, Any]) -> frozenset[int]:
    """Ids of tokens that begin within a character. Only vocabularies of bytes have any."""
    vocab = tokenizer_json["model"]["vocab"]
    if isinstance(vocab, list):  # Unigram
        vocab = {piece: index for index, (piece, _) in enumerate(vocab)}
    if "ByteLevel" in _types(tokenizer_json.get("pre_tokenizer")):
        later = {character for byte, character in _alphabet().items() if byte in _LATER_BYTES}
        return frozenset(token for piece, token in vocab.items() if piece[:1] in later)
    if tokenizer_json["model"].get("byte_fallback"):
        names = (f"<0x{byte:02X}>" for byte in _LATER_BYTES)
        return frozenset(vocab[name] for name in names if name in vocab)
    return frozenset()


def cut(ids: Ids, most: int, side: Side, later: frozenset[int]) -> Ids:
    """At most `most` ids, those on `side` gone.

    A character of several tokens goes as a whole where the cut would fall within it: half of one is
    no text, and the model has never seen it. transformers keeps the half. Should nothing be left
    then, the half is kept here too.
    """
    if len(ids) <= most:
        return ids
    start, end = (len(ids) - most, len(ids)) if side == "left" else (0, most)
    if side == "left":
        while start < end and ids[start] in later:
            start += 1
    else:
        while end > start and ids[end] in later:
            end -= 1
    if start < end:
        return ids[start:end]
    return ids[len(ids) - most :] if side == "left" else ids[:most]


def _types(step: Any) -> Iterator[str]:
    """The type of a pre-tokenizer, and of those that a sequence is made of."""
    if isinstance(step, Mapping):
        yield str(step.get("type"))
        for inner in step.get("pretokenizers", ()):
            yield from _types(inner)


def _alphabet() -> Mapping[int, str]:
    """How vocabularies of GPT-2's kind write a byte: as itself where one can see it."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {b: chr(256 + n) for n, b in enumerate(hidden)}
