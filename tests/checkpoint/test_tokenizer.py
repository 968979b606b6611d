import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE, Model, WordLevel, WordPiece

from checkpoint.errors import (
    CheckpointError,
    EmptyInput,
    InputTooLong,
    InvalidText,
    InvalidTokenId,
    UnsupportedCheckpoint,
)
from checkpoint.text_limit import TextLimit
from checkpoint.tokenizer import Encoded, Side, TextTokenizer

KINDS = ["wordpiece", "bpe", "unigram", "bare"]
VOCAB = 30522  # the largest of them
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAMES = ["[SEP]", "[CLS]", "[MASK]", "<s>", "</s>", "<unk>", "<mask>"]


def rows(encoded: Encoded) -> list[list[int]]:
    ends = np.cumsum(encoded.lengths)[:-1]
    return [row.tolist() for row in np.split(encoded.input_ids, ends)]


def reference(tokenizer_json: bytes, texts: Sequence[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_buffer(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_the_tokenizers_own(tokenizer_jsons: dict[str, bytes], kind: str) -> None:
    tokenizer = TextTokenizer(tokenizer_jsons[kind], 512, VOCAB)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXTS.filter(lambda text: "<" not in text and text != ""), max_size=4))
    def check(texts: list[str]) -> None:
        if kind != "bare" or all(reference(tokenizer_jsons[kind], texts)):
            assert rows(tokenizer.encode(texts))[: len(texts)] == reference(
                tokenizer_jsons[kind], texts
            )

    check()


def test_arrays_are_what_the_engine_takes(wordpiece_json: bytes) -> None:
    encoded = TextTokenizer(wordpiece_json, 256, VOCAB).encode(["hello world", ""])
    assert encoded.input_ids.dtype == encoded.lengths.dtype == np.int32
    assert encoded.input_ids.tolist() == [101, 7592, 2088, 102, 101, 102]
    assert encoded.lengths.tolist() == [4, 2]
    assert encoded.type_ids is None
    assert encoded.truncated == 0
    assert TextTokenizer(wordpiece_json, 256, VOCAB).encode([]).lengths.shape == (0,)


def test_truncation_and_padding_left_in_the_file_are_ignored(wordpiece_json: bytes) -> None:
    assert json.loads(wordpiece_json)["truncation"]["max_length"] == 128
    assert json.loads(wordpiece_json)["padding"]["strategy"] == {"Fixed": 128}
    tokenizer = TextTokenizer(wordpiece_json, 256, VOCAB)
    assert tokenizer.encode(["word " * 254, "word"]).lengths.tolist() == [256, 3]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_cut_text_keeps_its_last_special_token(
    tokenizer_jsons: dict[str, bytes], kind: str
) -> None:
    tokenizer = TextTokenizer(tokenizer_jsons[kind], 8, VOCAB)
    text = "the quick brown fox jumps over the lazy dog"
    (whole,) = reference(tokenizer_jsons[kind], [text])
    encoded = tokenizer.encode(["a", text], truncate=True)
    assert rows(encoded)[1] == [*whole[:7], whole[-1]]
    assert encoded.truncated == 1


def test_text_of_exactly_the_limit_is_accepted_and_one_more_refused(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    assert tokenizer.encode(["word " * 14]).lengths.tolist() == [16]
    with pytest.raises(InputTooLong) as caught:
        tokenizer.encode(["word", "word " * 15])
    assert (caught.value.index, caught.value.tokens, caught.value.limit) == (1, 17, 16)


def test_prompt_counts_and_is_part_of_the_text(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 8, VOCAB)
    with_prompt = tokenizer.encode(["fox"], prompt="query: ")
    assert rows(with_prompt) == rows(tokenizer.encode(["query: fox"]))
    with pytest.raises(InputTooLong):
        tokenizer.encode(["word " * 6], prompt="query: ")


def test_absurdly_long_text_is_refused_without_tokenizing_it(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    limit = tokenizer.text_limit
    assert (limit.characters, limit.most) == (64 * 16 + 1024, 16 * (64 * 16 + 1024))
    blank, marks = " " * limit.most, "́ " * (limit.characters // 2)
    for text in (blank, marks):
        assert tokenizer.encode([text]).lengths.tolist() == [2]
    for text, prompt in ((blank + " ", ""), (blank, "q"), (marks + "q", ""), (marks, "q")):
        with pytest.raises(InputTooLong) as caught:
            tokenizer.encode(["fox", text], prompt=prompt)
        assert (caught.value.index, caught.value.tokens) == (1, None)


def test_absurdly_long_text_is_cut_first_when_truncating(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    encoded = tokenizer.encode([" " * tokenizer.text_limit.most + "fox", "fox"], truncate=True)
    assert encoded.lengths.tolist() == [2, 3]
    assert encoded.truncated == 1


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("run", [" ", " \n\t", "a", "a1Z"])
def test_long_run_that_is_one_token_or_none_is_no_long_text(
    wordpiece_json: bytes, run: str, truncate: bool
) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    long = run * (15_000 // len(run))
    texts = [f"{long} hello", f"hello {long}", f"fox{long} {long} dog"]
    encoded = tokenizer.encode(texts, truncate=truncate)
    assert rows(encoded) == reference(wordpiece_json, texts)
    assert encoded.truncated == 0
    (query,) = reference(wordpiece_json, [texts[0]])
    assert rows(tokenizer.encode_pairs(texts[0], [""]))[0] == [*query, 102]


def test_text_after_a_long_run_is_cut_at_its_tokens(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    cut = tokenizer.encode([" " * 20_000 + "fox dog " * 2_000], truncate=True)
    assert rows(cut) == rows(tokenizer.encode(["fox dog " * 7]))
    assert cut.truncated == 1


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bare"])
def test_long_word_is_refused_where_it_would_be_many_tokens(
    tokenizer_jsons: dict[str, bytes], kind: str
) -> None:
    tokenizer = TextTokenizer(tokenizer_jsons[kind], 16, VOCAB)
    with pytest.raises(InputTooLong) as caught:
        tokenizer.encode(["a" * 20_000])
    assert caught.value.tokens is None


@given(st.text("a \n", max_size=60), st.integers(0, 20), st.sampled_from(["left", "right"]))
def test_kept_text_has_the_measure_of_the_limit(text: str, characters: int, side: Side) -> None:
    limit = TextLimit(characters, 1000, re.compile(r"\s{2,}"))
    kept = limit.kept(text, side)
    measured = len(limit.runs.sub(" ", text[len(text) - kept :] if side == "left" else text[:kept]))
    assert measured == min(characters, len(limit.runs.sub(" ", text)))
    assert limit.holds(text) == (kept == len(text))


def test_empty_text_is_accepted_where_special_tokens_give_an_id(
    tokenizer_jsons: dict[str, bytes],
) -> None:
    for kind in ("wordpiece", "bpe", "unigram"):
        tokenizer = TextTokenizer(tokenizer_jsons[kind], 16, VOCAB)
        assert tokenizer.encode([""]).lengths.tolist() == [2]
    bare = TextTokenizer(tokenizer_jsons["bare"], 16, VOCAB)
    with pytest.raises(EmptyInput) as caught:
        bare.encode(["fox", ""])
    assert caught.value.index == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_name_of_a_special_token_is_text(
    tokenizer_jsons: dict[str, bytes], kind: str, name: str
) -> None:
    data = tokenizer_jsons[kind]
    special = {t["id"] for t in json.loads(data)["added_tokens"]} - {100, 3}  # but [UNK], <unk>
    tokenizer = TextTokenizer(data, 64, VOCAB)
    around = 0 if kind == "bare" else 2
    for text in (name, f"fox {name} fox", f"fox{name}", f"{name}{name}"):
        (ids,) = rows(tokenizer.encode([text]))
        assert sum(token in special for token in ids) == around
        assert 3 not in ids or kind == "wordpiece"  # nor did it become unknown


@pytest.mark.parametrize("kind", KINDS)
def test_added_token_that_is_not_special_is_vocabulary(
    tokenizer_jsons: dict[str, bytes], kind: str
) -> None:
    tokenizer = Tokenizer.from_buffer(tokenizer_jsons[kind])
    tokenizer.add_tokens(["<image>"])
    image = tokenizer.token_to_id("<image>")
    data = tokenizer.to_str().encode()
    (ids,) = rows(TextTokenizer(data, 64, image + 1).encode(["fox<image>fox"]))
    assert ids.count(image) == 1
    with pytest.raises(UnsupportedCheckpoint, match=f"id {image}"):
        TextTokenizer(data, 64, image)


@pytest.mark.parametrize("kind", KINDS)
def test_nul_is_passed_to_the_tokenizer_as_it_is(
    tokenizer_jsons: dict[str, bytes], kind: str
) -> None:
    tokenizer = TextTokenizer(tokenizer_jsons[kind], 64, VOCAB)
    assert rows(tokenizer.encode(["fox\0fox"])) == reference(tokenizer_jsons[kind], ["fox\0fox"])


def test_lone_surrogate_is_refused_with_its_place(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 64, VOCAB)
    with pytest.raises(InvalidText) as caught:
        tokenizer.encode(["fox", "secret \ud800"])
    assert caught.value.index == 1
    with pytest.raises(InvalidText):
        tokenizer.encode_pairs("\udfff", ["fox"])


def test_errors_never_show_the_input(wordpiece_json: bytes, bare_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 8, VOCAB)
    for text in ("secret " * 9, "secret " * 999, "secret \ud800"):
        with pytest.raises((InputTooLong, InvalidText)) as caught:
            tokenizer.encode([text])
        assert "secret" not in str(caught.value)


def test_threads_share_one_tokenizer(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 64, VOCAB)
    texts = [[f"fox number {n}", "word " * n] for n in range(40)]
    alone = [rows(tokenizer.encode(pair)) for pair in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda pair: rows(tokenizer.encode(pair)), texts * 5))
    assert together == alone * 5


def test_native_ids_are_used_as_given(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 4, VOCAB)
    encoded = tokenizer.check_native([[0], [5, VOCAB - 1, 7, 8]])
    assert rows(encoded) == [[0], [5, VOCAB - 1, 7, 8]]
    assert encoded.input_ids.dtype == np.int32
    assert encoded.type_ids is None


@pytest.mark.parametrize("token", [-1, VOCAB, 2**70, True, 1.0, "1", None])
def test_native_id_out_of_the_vocabulary_is_refused(wordpiece_json: bytes, token: object) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 4, VOCAB)
    with pytest.raises(InvalidTokenId) as caught:
        tokenizer.check_native([[1], [1, token]])  # type: ignore[list-item]
    assert (caught.value.index, caught.value.position) == (1, 1)


def test_native_ids_respect_the_limit(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 4, VOCAB)
    with pytest.raises(InputTooLong) as caught:
        tokenizer.check_native([[1], [1] * 5])
    assert (caught.value.index, caught.value.tokens, caught.value.limit) == (1, 5, 4)
    cut = tokenizer.check_native([[1], [1, 2, 3, 4, 5]], truncate=True)
    assert rows(cut) == [[1], [1, 2, 3, 4]]
    assert cut.truncated == 1
    with pytest.raises(EmptyInput) as empty:
        tokenizer.check_native([[1], []])
    assert empty.value.index == 1


def test_tokenizer_with_ids_beyond_the_embedding_table_is_refused(
    tokenizer_jsons: dict[str, bytes],
) -> None:
    for data in (tokenizer_jsons["wordpiece"], tokenizer_jsons["unigram"]):
        rows_needed = Tokenizer.from_buffer(data).get_vocab_size()
        TextTokenizer(data, 64, rows_needed)
        with pytest.raises(UnsupportedCheckpoint, match=f"id {rows_needed - 1}"):
            TextTokenizer(data, 64, rows_needed - 1)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"model": {"vocab": {}}}', b"\xff"])
def test_broken_tokenizer_file_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"tokenizer\.json"):
        TextTokenizer(data, 64, VOCAB)


def test_limit_without_room_for_text_is_refused(wordpiece_json: bytes) -> None:
    with pytest.raises(CheckpointError, match="no room"):
        TextTokenizer(wordpiece_json, 2, VOCAB)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (BPE({"fox": 0}, []), "letter"),
        (WordLevel({"fox": 0}, unk_token="[UNK]"), "[UNK]"),
        (WordPiece({"fox": 0}), "[UNK]"),
    ],
)
def test_vocabulary_that_fails_on_some_text_is_refused(model: Model, named: str) -> None:
    data = Tokenizer(model).to_str().encode()
    with pytest.raises(UnsupportedCheckpoint, match=re.escape(named)):
        TextTokenizer(data, 64, VOCAB)


def test_template_that_repeats_the_text_is_refused(wordpiece_json: bytes) -> None:
    parsed = json.loads(wordpiece_json)
    single = parsed["post_processor"]["single"]
    single.append({"Sequence": {"id": "A", "type_id": 0}})
    with pytest.raises(UnsupportedCheckpoint, match="post_processor"):
        TextTokenizer(json.dumps(parsed).encode(), 64, VOCAB)
