"""What a tokenizer makes of each character by itself, asked of its own normalizer.

The table holds only characters of which that does not depend on their neighbours. Others, combining
marks above all, are not in it, nor is a text that has one of them.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit


class Kind(IntEnum):
    """As pieces.cpp has them."""

    UNKNOWN = 0
    WORD = 1
    SPACE = 2
    ALONE = 3
    STARTS = 4
    GONE = 5
    RUN = 6


_KIND_BITS = 3
_META = "▁"

# The planes of living scripts, and the blocks of emoji.
_CODES = (*range(0xD800), *range(0xE000, 0x10000), *range(0x1F000, 0x1FB00))

# Between two characters while they are asked for; neither may change the other.
_SEPARATORS = "☃¬ж"
_AT_ONCE = 2048  # characters: normalizers take longer for long texts

# Letters and symbols that Unicode joins to what stands before or behind them, though they are no
# marks: Thai and Lao am, dot reph, half-width voicing, Hangul's parts, flags, colours of skin.
_JOINING = re.compile(
    "[\u0e33\u0eb3\u0d4e\uff9e\uff9f\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff"
    "\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]"
)

_SQUEEZE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


class NotCovered(Exception):
    """A tokenizer.json that is not of a kind whose characters stand for themselves."""


@dataclass(frozen=True, eq=False)
class CharacterTable:
    """`entries` and `runs` as pieces.cpp reads them; `characters` are those that it holds."""

    entries: NDArray[np.uint32]  # [highest code point + 1]
    runs: bytes
    line_break: int  # the entry of "\r\n"
    characters: str


def wordpiece_table(parsed: Mapping[str, object]) -> CharacterTable:
    """Of BERT's normalizer and pre-tokenizer. Raises NotCovered."""
    kinds = _type(parsed["normalizer"]), _type(parsed["pre_tokenizer"])
    if kinds != ("BertNormalizer", "BertPreTokenizer"):
        raise NotCovered(f"normalizer and pre-tokenizer: {kinds}")
    return _bert_table(json.dumps(parsed["normalizer"]))


def unigram_table(parsed: Mapping[str, object]) -> CharacterTable:
    """Of SentencePiece's normalizer, as `tokenizers` applies it. Raises NotCovered."""
    steps = _parts(parsed["normalizer"], "normalizers")
    if [_type(step) for step in steps[:1]] != ["Precompiled"] or steps[1:] not in ([], [_SQUEEZE]):
        raise NotCovered(f"normalizers: {[_type(step) for step in steps]}")
    return _sentencepiece_table(json.dumps(parsed["normalizer"]), splits_at_space(parsed))


# A gateway serves few models, and tokenizers of one family have one normalizer.
@lru_cache(8)
def _bert_table(normalizer: str) -> CharacterTable:
    def holds(_: str, becomes: str) -> bool:
        # Normalizing puts marks in order. Where no mark is left there is no order.
        return not any(map(unicodedata.combining, becomes))

    return _table(_normalize(normalizer), _bert_kinds, holds)


@lru_cache(8)
def _sentencepiece_table(normalizer: str, splits: bool) -> CharacterTable:
    def holds(character: str, _: str) -> bool:
        # The normalizer takes what a reader sees as one character, its marks included.
        category = unicodedata.category(character)
        return (category[0] in "LNPSZ" or category == "Cc") and not _JOINING.match(character)

    return _table(_normalize(normalizer), _split_kinds if splits else _space_kinds, holds)


def _normalize(normalizer: str) -> Callable[[str], str]:
    # The only way to a normalizer of a description is a tokenizer that has it.
    whole = {"version": "1.0", "normalizer": json.loads(normalizer), "added_tokens": []}
    whole |= {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    loaded = Tokenizer.from_str(json.dumps(whole))
    found: normalizers.Normalizer = loaded.normalizer
    return found.normalize_str


def joins_spaces(parsed: Mapping[str, object]) -> bool:
    return _SQUEEZE in _parts(parsed["normalizer"], "normalizers")


def splits_at_space(parsed: Mapping[str, object]) -> bool:
    """Whether whitespace is left out before words get their "▁". Raises NotCovered."""
    parts = _parts(parsed["pre_tokenizer"], "pretokenizers")
    if not parts or not _is_metaspace(parts[-1]):
        raise NotCovered(f"pre-tokenizers: {[_type(part) for part in parts]}")
    if parts[:-1] not in ([], [{"type": "WhitespaceSplit"}]):
        raise NotCovered(f"pre-tokenizers: {[_type(part) for part in parts]}")
    return len(parts) == 2


def _is_metaspace(part: Mapping[str, object]) -> bool:
    legacy = "prepend_scheme" not in part and part.get("add_prefix_space") is True
    always = legacy or part.get("prepend_scheme") == "always"
    return (
        _type(part) == "Metaspace"
        and part.get("replacement") == _META
        and always
        and part.get("split", True) is True
    )


def _table(
    normalize: Callable[[str], str],
    kinds_of: Callable[[str], Mapping[str, Kind]],
    holds: Callable[[str, str], bool],
) -> CharacterTable:
    asked = [chr(code) for code in _CODES if unicodedata.category(chr(code)) != "Cn"]
    becomes = {
        character: form
        for character, form in zip(asked, _normalized(normalize, asked), strict=True)
        if holds(character, form)
    }
    line_break = normalize("\r\n")
    kinds = kinds_of("".join(sorted({*"".join(becomes.values()), *line_break})))
    entries = np.zeros(_CODES[-1] + 1, np.uint32)
    runs = bytearray()
    for character, form in becomes.items():
        entries[ord(character)] = _entry(character, form, kinds, runs)
    last = _entry("", line_break, kinds, runs)
    return CharacterTable(entries, bytes(runs), last, "".join(becomes))


def _normalized(normalize: Callable[[str], str], asked: Sequence[str]) -> Iterable[str]:
    """What becomes of each character. Raises NotCovered where one changes its neighbours."""
    separator = next((c for c in _SEPARATORS if normalize(f"a{c}{c}a") == f"a{c}{c}a"), None)
    if separator is None:
        raise NotCovered("no character is left as it is")
    for start in range(0, len(asked), _AT_ONCE):
        part = asked[start : start + _AT_ONCE]
        forms = normalize(separator + separator.join(part) + separator).split(separator)
        if separator in part:
            at = part.index(separator) + 1  # between the three there is nothing, twice
            forms[at : at + 2] = [separator]
        if len(forms) != len(part) + 2 or forms[0] or forms[-1]:
            raise NotCovered("a character changes its neighbours")
        yield from forms[1:-1]


def _entry(character: str, form: str, kinds: Mapping[str, Kind], runs: bytearray) -> int:
    if not form:
        return Kind.GONE
    if form == character:
        return kinds[form]
    whole = [(kinds[part], part) for part in form]
    if [kind for kind, _ in whole] == [Kind.SPACE]:
        return Kind.SPACE
    # A word by itself, which is what BERT makes of a Chinese character.
    if character and form == f" {character} ":
        return Kind.ALONE
    at = len(runs)
    runs.append(len(whole))
    for kind, part in whole:
        data = part.encode()
        runs += bytes((kind, len(data))) + data
    return Kind.RUN | at << _KIND_BITS


def _bert_kinds(characters: str) -> Mapping[str, Kind]:
    """Punctuation is a word by itself; whitespace parts words."""
    found = dict.fromkeys(characters, Kind.SPACE)
    for piece, (start, end) in BertPreTokenizer().pre_tokenize_str(_apart(characters)):
        for at in range(start | 1, end, 2):
            found[characters[at // 2]] = Kind.WORD if len(piece) > 1 else Kind.ALONE
    return found


def _split_kinds(characters: str) -> Mapping[str, Kind]:
    found = dict.fromkeys(characters, Kind.SPACE)
    for _, (start, end) in WhitespaceSplit().pre_tokenize_str(_apart(characters)):
        for at in range(start | 1, end, 2):
            found[characters[at // 2]] = Kind.WORD
    return found | ({_META: Kind.STARTS} if _META in characters else {})


def _space_kinds(characters: str) -> Mapping[str, Kind]:
    return dict.fromkeys(characters, Kind.WORD) | {" ": Kind.SPACE, _META: Kind.STARTS}


def _apart(characters: str) -> str:
    """Each between two letters."""
    return "a" + "a".join(characters) + "a"


def _parts(step: object, name: str) -> list[Mapping[str, object]]:
    """A step, or those that a sequence is made of."""
    if not isinstance(step, dict):
        return []
    return list(step[name]) if _type(step) == "Sequence" else [step]


def _type(step: object) -> str:
    return str(step.get("type")) if isinstance(step, dict) else "none"
