"""Cut on the left and on the right: as the library cuts, but never within a character."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from checkpoint.characters import Side
from checkpoint.errors import InputTooLong
from checkpoint.tokenizer import Encoded, TextTokenizer

VOCAB = 30522
SIDES: list[Side] = ["left", "right"]
TEXT = "the quick brown fox jumps over the lazy dog " * 3


def rows(encoded: Encoded) -> list[list[int]]:
    ends = np.cumsum(encoded.lengths)[:-1]
    return [row.tolist() for row in np.split(encoded.input_ids, ends)]


def reference(tokenizer_json: bytes, limit: int, side: Side, strategy: str) -> Tokenizer:
    tokenizer = Tokenizer.from_buffer(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit, strategy=strategy, direction=side)
    return tokenizer


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "bare"])
@pytest.mark.parametrize("prompt", ["", "the prompt: "])
def test_text_is_cut_where_the_library_cuts_it(
    tokenizer_jsons: dict[str, bytes], kind: str, side: Side, prompt: str
) -> None:
    for limit in (4, 5, 8, 17, 30, 39):
        tokenizer = TextTokenizer(tokenizer_jsons[kind], limit, VOCAB)
        own = reference(tokenizer_jsons[kind], limit, side, "longest_first")
        encoded = tokenizer.encode(["fox", TEXT], prompt=prompt, truncate=True, side=side)
        expected = own.encode_batch([prompt + "fox", prompt + TEXT])
        assert rows(encoded) == [one.ids for one in expected]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "bare"])
def test_document_of_a_pair_is_cut_where_the_library_cuts_it(
    tokenizer_jsons: dict[str, bytes], kind: str, side: Side
) -> None:
    for limit in (12, 13, 20, 39):
        tokenizer = TextTokenizer(tokenizer_jsons[kind], limit, VOCAB)
        own = reference(tokenizer_jsons[kind], limit, side, "only_second")
        encoded = tokenizer.encode_pairs("the fox", ["", TEXT], side=side)
        expected = own.encode_batch([("the fox", ""), ("the fox", TEXT)])
        assert rows(encoded) == [one.ids for one in expected]


def test_special_tokens_stay_on_both_sides(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 5, VOCAB)
    left, right = (
        rows(tokenizer.encode(["fox dog fox dog cat"], truncate=True, side=side))[0]
        for side in SIDES
    )
    assert left[0] == right[0] == 101
    assert left[-1] == right[-1] == 102
    assert left[1:-1] == rows(tokenizer.encode(["fox dog cat"]))[0][1:-1]
    assert right[1:-1] == rows(tokenizer.encode(["fox dog fox"]))[0][1:-1]


def test_a_long_text_loses_its_prompt_first_on_the_left(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 5, VOCAB)
    cut = tokenizer.encode(["dog cat fox"], prompt="query: ", truncate=True, side="left")
    assert rows(cut) == rows(tokenizer.encode(["dog cat fox"]))
    assert cut.truncated == 1


@pytest.mark.parametrize("side", SIDES)
def test_absurdly_long_text_keeps_the_other_end(wordpiece_json: bytes, side: Side) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 8, VOCAB)
    text = "cat" + " " * tokenizer.text_limit.most + "dog"
    kept = "dog" if side == "left" else "cat"
    assert rows(tokenizer.encode([text], truncate=True, side=side)) == rows(
        tokenizer.encode([kept])
    )
    with pytest.raises(InputTooLong):
        tokenizer.encode([text], side=side)


@pytest.mark.parametrize("side", SIDES)
def test_document_is_shortened_on_the_side_asked_for(wordpiece_json: bytes, side: Side) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 64, VOCAB)
    kept = "dog cat" if side == "left" else "fox dog"
    cut = tokenizer.encode_pairs("q", ["fox dog cat"], max_document_tokens=2, side=side)
    assert rows(cut) == rows(tokenizer.encode_pairs("q", [kept]))
    assert cut.truncated == 1


def test_native_ids_are_cut_on_the_side_asked_for(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 3, VOCAB)
    assert rows(tokenizer.check_native([[1, 2, 3, 4]], truncate=True, side="left")) == [[2, 3, 4]]


# Characters of several tokens


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["chat", "byte_fallback"])
def test_no_character_is_cut_in_two(
    chat_json: bytes, byte_fallback_json: bytes, kind: str, side: Side
) -> None:
    data = chat_json if kind == "chat" else byte_fallback_json
    text = "a語é日本🦊b語ž"
    decoder = Tokenizer.from_buffer(data)
    whole = int(TextTokenizer(data, 64, 500).encode([text]).lengths[0])
    assert whole > 2 * len(text) - 4
    for limit in range(7, whole):
        (ids,) = rows(TextTokenizer(data, limit, 500).encode([text], truncate=True, side=side))
        assert limit - 4 < len(ids) <= limit
        part = decoder.decode(ids)
        assert "�" not in part
        assert text.endswith(part) if side == "left" else text.startswith(part)


@pytest.mark.parametrize("side", SIDES)
def test_cut_equals_the_librarys_but_for_the_rest_of_a_character(
    chat_json: bytes, side: Side
) -> None:
    tokenizer = TextTokenizer(chat_json, 12, 500)
    own = reference(chat_json, 12, side, "longest_first")
    decoder = Tokenizer.from_buffer(chat_json)

    @settings(max_examples=100, deadline=None)
    @given(st.text("ab <é日本語🦊", min_size=1, max_size=30))
    def check(text: str) -> None:
        (ids,) = rows(tokenizer.encode([text], truncate=True, side=side))
        expected = own.encode(text).ids
        lost = len(expected) - len(ids)
        assert ids == (expected[lost:] if side == "left" else expected[: len(ids)])
        assert lost == 0 or "�" in decoder.decode(expected)
        assert "�" not in decoder.decode(ids) or ids == expected

    check()


@pytest.mark.parametrize("side", SIDES)
def test_a_character_longer_than_the_limit_still_gives_ids(chat_json: bytes, side: Side) -> None:
    ids = TextTokenizer(chat_json, 2, 500).encode(["🦊"], truncate=True, side=side).input_ids
    whole = TextTokenizer(chat_json, 9, 500).encode(["🦊"]).input_ids.tolist()
    assert len(whole) == 4
    assert ids.tolist() == (whole[2:] if side == "left" else whole[:2])


def test_pieces_of_words_may_be_cut_anywhere(unigram_json: bytes, wordpiece_json: bytes) -> None:
    """Their tokens are made of characters: é is never two."""
    for data in (unigram_json, wordpiece_json):
        for limit in range(3, 9):
            encoded = TextTokenizer(data, limit, VOCAB).encode(["éééé éééé"], truncate=True)
            assert encoded.lengths.tolist() == [limit] or limit > 6
