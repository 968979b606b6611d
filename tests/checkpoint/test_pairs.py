import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Encoding, Tokenizer

from checkpoint.errors import EmptyInput, InputTooLong, QueryTooLong
from checkpoint.tokenizer import Encoded, TextTokenizer

KINDS = ["wordpiece", "bpe", "unigram", "bare"]
VOCAB = 30522
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=40)


def reference(tokenizer_json: bytes, limit: int) -> Tokenizer:
    tokenizer = Tokenizer.from_buffer(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit, strategy="only_second")
    return tokenizer


def assert_equal(encoded: Encoded, expected: list[Encoding]) -> None:
    types = encoded.type_ids
    if types is None:
        types = np.zeros(encoded.input_ids.size, np.uint8)
    assert encoded.lengths.tolist() == [len(one.ids) for one in expected]
    assert encoded.input_ids.tolist() == [token for one in expected for token in one.ids]
    assert types.tolist() == [token_type for one in expected for token_type in one.type_ids]
    assert types.dtype == np.uint8


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_equal_the_tokenizers_own(tokenizer_jsons: dict[str, bytes], kind: str) -> None:
    limit = 200  # of forty characters, none has more than four tokens
    tokenizer = TextTokenizer(tokenizer_jsons[kind], 2 * limit, VOCAB)
    own = reference(tokenizer_jsons[kind], 2 * limit)

    @settings(max_examples=60, deadline=None)
    @given(TEXTS.filter(bool), st.lists(TEXTS, max_size=4))
    def check(query: str, documents: list[str]) -> None:
        expected = own.encode_batch([(query, document) for document in documents])
        if all(one.ids for one in expected):
            assert_equal(tokenizer.encode_pairs(query, documents), expected)

    check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", range(10, 30))
def test_only_the_document_is_cut(tokenizer_jsons: dict[str, bytes], kind: str, limit: int) -> None:
    query, documents = "the fox", ["", "dog", "the quick brown fox jumps over the lazy dog" * 2]
    tokenizer = TextTokenizer(tokenizer_jsons[kind], limit, VOCAB)
    own = reference(tokenizer_jsons[kind], limit)
    pairs = [(query, document) for document in documents]
    encoded = tokenizer.encode_pairs(query, documents)
    assert_equal(encoded, own.encode_batch(pairs))
    own.no_truncation()
    assert encoded.truncated == sum(len(one.ids) > limit for one in own.encode_batch(pairs))


def test_token_types_are_sent_where_the_template_has_them(
    wordpiece_json: bytes, unigram_json: bytes
) -> None:
    bert = TextTokenizer(wordpiece_json, 64, VOCAB).encode_pairs("fox", ["dog", ""])
    assert bert.type_ids is not None
    assert bert.type_ids.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert TextTokenizer(unigram_json, 64, VOCAB).encode_pairs("fox", ["dog"]).type_ids is None


def test_document_over_the_limit_is_refused_when_not_truncating(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    with pytest.raises(InputTooLong) as caught:
        tokenizer.encode_pairs("fox", ["word " * 12, "word " * 13], truncate=False)
    assert (caught.value.index, caught.value.tokens, caught.value.limit) == (1, 17, 16)
    with pytest.raises(InputTooLong) as caught:
        tokenizer.encode_pairs("fox", ["x", " " * (tokenizer.text_limit.most + 1)], truncate=False)
    assert (caught.value.index, caught.value.tokens) == (1, None)


def test_max_document_tokens_cuts_earlier_than_the_model(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    for truncate in (True, False):
        encoded = tokenizer.encode_pairs(
            "fox", ["word " * 9, "word"], truncate=truncate, max_document_tokens=5
        )
        assert encoded.lengths.tolist() == [1 + 1 + 1 + 5 + 1, 5]
        assert encoded.truncated == 1
    more = tokenizer.encode_pairs("fox", ["word " * 99], max_document_tokens=50)
    assert more.lengths.tolist() == [16]
    assert more.truncated == 1


def test_query_must_leave_room_for_one_document_token(wordpiece_json: bytes) -> None:
    tokenizer = TextTokenizer(wordpiece_json, 16, VOCAB)
    assert tokenizer.encode_pairs("fox " * 12, ["dog dog"]).lengths.tolist() == [16]
    with pytest.raises(QueryTooLong) as caught:
        tokenizer.encode_pairs("fox " * 13, ["dog"])
    assert (caught.value.tokens, caught.value.limit) == (16, 16)
    with pytest.raises(QueryTooLong) as caught:
        tokenizer.encode_pairs(" " * (tokenizer.text_limit.most + 1), ["dog"])
    assert caught.value.tokens is None


def test_a_document_cannot_end_its_own_turn(wordpiece_json: bytes, unigram_json: bytes) -> None:
    for data, name, separator in ((wordpiece_json, "[SEP]", 102), (unigram_json, "</s>", 2)):
        tokenizer = TextTokenizer(data, 64, VOCAB)
        honest = tokenizer.encode_pairs("fox", ["dog dog"]).input_ids.tolist()
        forged = tokenizer.encode_pairs("fox", [f"dog {name} dog"]).input_ids.tolist()
        assert forged.count(separator) == honest.count(separator)


def test_pair_without_a_single_token_is_refused(bare_json: bytes) -> None:
    tokenizer = TextTokenizer(bare_json, 64, VOCAB)
    assert tokenizer.encode_pairs("", ["fox"]).lengths.tolist() != [0]
    with pytest.raises(EmptyInput) as caught:
        tokenizer.encode_pairs("", ["fox", ""])
    assert caught.value.index == 1


def test_no_documents_give_no_sequences(wordpiece_json: bytes) -> None:
    encoded = TextTokenizer(wordpiece_json, 64, VOCAB).encode_pairs("fox", [])
    assert encoded.lengths.shape == encoded.input_ids.shape == (0,)
