"""Texts and pairs get the ids that transformers gives them, from four kinds of tokenizer.

For the Unigram one, e5, sentencepiece gives the same: make_token_ids.py fails where it does not.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import archive, package_texts, packaged, token_ids
from reference.archive import Reference
from reference.pipeline import Sequences
from reference.token_ids import CASES, Case
from tokenizers import Encoding, Tokenizer

from checkpoint.tokenizer import TextTokenizer

VOCAB_SIZES = {"minilm": 30_522, "e5": 250_037, "qwen3": 151_936, "gemma3": 262_144}
# transformers keeps half of a character where the limit falls among the tokens of one. Here none of
# them is kept. That is meant, it is the only difference, and this is how many texts or pairs it is
# of; tokenizers that are not named have no token within a character.
CUT_WITHIN_A_CHARACTER: Mapping[str, Mapping[str, int]] = {
    "qwen3": {"right": 31, "left": 17, "pairs": 9, "pairs-left": 10},
    "gemma3": {"right": 10, "left": 8, "pairs": 2, "pairs-left": 3},
}
HALF = "\N{REPLACEMENT CHARACTER}"  # what bytes that are no whole character are decoded to


@pytest.fixture(scope="module")
def reference() -> Reference:
    reference = archive.read("token-ids.npz")
    assert package_texts.sha256() == reference.header["texts_sha256"], (
        "the texts changed: run make_token_ids.py again"
    )
    return reference


@pytest.mark.parametrize("case_name", CASES)
@pytest.mark.parametrize("name", token_ids.TOKENIZERS)
def test_ids_equal_transformers_but_for_halves_of_characters(
    name: str, case_name: str, reference: Reference
) -> None:
    case = CASES[case_name]
    given = case.inputs()
    actual, truncated = encode(tokenizer(name, case.limit_tokens), case)
    at_limit = reference.header["at_limit"][name][case_name]
    assert 0.9 * at_limit <= truncated <= at_limit  # a few are as long as the limit
    expected = reference.arrays[f"{name}/{case_name}"]
    digests = token_ids.digests(as_lists(actual.input_ids), as_lists(actual.type_ids))
    differing = np.flatnonzero(digests != expected).tolist()
    for i in differing:
        cut = as_transformers_cuts(library(name), case, given[i])
        assert token_ids.digests([cut.ids], [cut.type_ids]) == expected[i]
        assert HALF in library(name).decode(cut.ids)
        assert_lacks_one_character(actual.take([i]), cut, case)
    assert len(differing) == CUT_WITHIN_A_CHARACTER.get(name, {}).get(case_name, 0)
    texts = library(name).decode_batch(as_lists(actual.input_ids))
    for text, asked in zip(texts, given, strict=True):
        assert HALF not in text or HALF in "".join(asked)


def encode(tokenizer: TextTokenizer, case: Case) -> tuple[Sequences, int]:
    """The sequences, and how many were truncated."""
    if case.pairs:
        parts = [
            tokenizer.encode_pairs(query, [document], side=case.side)
            for query, document in package_texts.pairs()
        ]
    else:
        texts = package_texts.texts()
        parts = [tokenizer.encode(texts, prompt=case.prompt, truncate=True, side=case.side)]
    sequences = [Sequences.encoded(part) for part in parts]
    together = Sequences(
        [ids for part in sequences for ids in part.input_ids],
        [types for part in sequences for types in part.type_ids],
    )
    return together, sum(part.truncated for part in parts)


def as_transformers_cuts(
    tokenizer: Tokenizer, case: Case, given: str | tuple[str, str]
) -> Encoding:
    strategy = "only_second" if case.pairs else "longest_first"
    tokenizer.enable_truncation(case.limit_tokens, strategy=strategy, direction=case.side)
    return tokenizer.encode(*([given] if isinstance(given, str) else given))


def assert_lacks_one_character(actual: Sequences, cut: Encoding, case: Case) -> None:
    """The same but for the tokens, next to the cut, that have something of one character."""
    (ids,), (type_ids,) = actual.input_ids, actual.type_ids
    missing = len(cut.ids) - len(ids)
    assert missing > 0
    text = [i for i, sequence in enumerate(cut.sequence_ids) if sequence == int(case.pairs)]
    lost = text[-missing:] if case.side == "right" else text[:missing]
    kept = [i for i in range(len(cut.ids)) if i not in lost]
    assert ids.tolist() == [cut.ids[i] for i in kept]
    assert type_ids.tolist() == [cut.type_ids[i] for i in kept]
    starts, ends = zip(*(cut.offsets[i] for i in lost), strict=True)  # in characters
    assert len(set(ends if case.side == "right" else starts)) == 1


def as_lists(rows: Sequence[NDArray[Any]]) -> list[list[int]]:
    return [row.tolist() for row in rows]


@lru_cache(maxsize=1)
def tokenizer(name: str, limit_tokens: int) -> TextTokenizer:
    return TextTokenizer(packaged.locate(name).read_bytes(), limit_tokens, VOCAB_SIZES[name])


@lru_cache(maxsize=1)
def library(name: str) -> Tokenizer:
    """What transformers calls."""
    return Tokenizer.from_file(str(packaged.locate(name)))
