"""Where a tokenizer puts its special tokens, learnt once from two probes.

With it, a query is tokenized once for all its documents, and a cut text keeps its last special
token: both are plain array work that tokenizer.json's own post-processor cannot do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from checkpoint.errors import UnsupportedCheckpoint

# How Qwen's and Llama 3's tokenizers split a text: alike but for the digits of a number.
_SPLITS = tuple(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
    + number
    + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
    for number in (r"\p{N}", r"\p{N}{1,3}")
)

PROBES = ("a", "0", ".", "あ")  # one of them has an id in any vocabulary worth serving


@dataclass(frozen=True)
class Run:
    """Tokens that stand in a row, and the token type of each."""

    ids: tuple[int, ...] = ()
    types: tuple[int, ...] = ()

    def __add__(self, other: "Run") -> "Run":
        return Run(self.ids + other.ids, self.types + other.types)


@dataclass(frozen=True)
class Layout:
    """Special tokens before, between and after the texts of one sequence."""

    gaps: tuple[Run, ...]  # one more than there are texts
    text_types: tuple[int, ...]  # the token type of each text

    @property
    def specials(self) -> int:
        return sum(len(gap.ids) for gap in self.gaps)


def read_layout(tokenizer: Tokenizer, texts: int) -> Layout:
    """The layout of one text, or of two. Raises UnsupportedCheckpoint for any other order."""
    probe, plain = _probe(tokenizer)
    encoding = tokenizer.encode(probe, probe if texts == 2 else None)
    gaps = [Run()] * (texts + 1)
    found = [Run()] * texts
    following = 0  # the gap that a special token here belongs to
    for token, token_type, text in zip(
        encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True
    ):
        one = Run((token,), (token_type,))
        if text is None:
            gaps[following] += one
        else:
            found[text] += one
            following = text + 1
    layout = Layout(tuple(gaps), tuple(run.types[0] if run.types else 0 for run in found))
    # Putting it together again must give what was taken apart.
    rebuilt = gaps[0]
    for text_type, gap in zip(layout.text_types, gaps[1:], strict=True):
        rebuilt += Run(plain, (text_type,) * len(plain)) + gap
    if rebuilt != Run(tuple(encoding.ids), tuple(encoding.type_ids)):
        raise UnsupportedCheckpoint(
            "tokenizer.json: its post_processor does more than put special tokens around the text"
        )
    return layout


def parts_before_space(tokenizer_json: Mapping[str, Any]) -> bool:
    """Whether what stands behind a space never changes the tokens before it.

    So it is in the byte-level BPE of GPT-2 and of those that split like it: a space belongs to the
    word behind it, and all but whitespace ends before it.
    """
    step = tokenizer_json.get("pre_tokenizer") or {}
    steps = step.get("pretokenizers", ()) if step.get("type") == "Sequence" else (step,)
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return False
    if len(steps) == 1:
        splits = steps[-1].get("use_regex", True)
    else:
        splits = len(steps) == 2 and _is_known_split(steps[0])
    normalizer = tokenizer_json.get("normalizer") or {"type": "NFC"}
    reaches = any(
        " " in token["content"] or token.get("rstrip")
        for token in tokenizer_json.get("added_tokens", ())
    )
    return bool(splits) and normalizer.get("type") == "NFC" and not reaches


def _is_known_split(step: Mapping[str, Any]) -> bool:
    return (
        step.get("type") == "Split"
        and step.get("pattern", {}).get("Regex") in _SPLITS
        and step.get("behavior") == "Isolated"
        and not step.get("invert")
    )


def _probe(tokenizer: Tokenizer) -> tuple[str, tuple[int, ...]]:
    for probe in PROBES:
        ids = tokenizer.encode(probe, add_special_tokens=False).ids
        if ids:
            return probe, tuple(ids)
    raise UnsupportedCheckpoint("tokenizer.json: its vocabulary has not even the letter a")
