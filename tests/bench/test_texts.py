"""Texts: exact, repeatable, fresh."""

import hashlib

import pytest
from tokenizers import Tokenizer

from bench.texts import Texts, mixed_lengths
from checkpoint.find import find_model


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    model = find_model("sentence-transformers/all-MiniLM-L6-v2")
    tokenizer = Tokenizer.from_file(str(model.directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@pytest.mark.parametrize("tokens", [3, 16, 128, 256, 512])
def test_text_has_exactly_the_tokens_asked_for(tokenizer: Tokenizer, tokens: int) -> None:
    texts = Texts("exact")
    encoded = tokenizer.encode_batch([texts.of(tokens) for _ in range(50)])
    assert {len(one.ids) for one in encoded} == {tokens}


def test_same_seed_gives_the_same_texts() -> None:
    one, same, other = Texts("a"), Texts("a"), Texts("b")
    drawn = [one.of(16) for _ in range(20)]
    assert drawn == [same.of(16) for _ in range(20)]
    assert not set(drawn) & {other.of(16) for _ in range(20)}


def test_texts_do_not_repeat_within_a_run() -> None:
    texts = Texts("fresh")
    assert len({texts.of(16) for _ in range(5_000)}) == 5_000


def test_mixed_corpus_has_its_published_shape(tokenizer: Tokenizer) -> None:
    corpus = Texts("mixed").mixed()
    lengths = [len(one.ids) for one in tokenizer.encode_batch(corpus)]
    assert sorted(lengths) == mixed_lengths()
    assert lengths != sorted(lengths)
    assert (len(lengths), min(lengths), max(lengths)) == (256, 7, 256)
    assert sum(lengths) / len(lengths) == pytest.approx(81, abs=0.1)


def test_mixed_corpus_is_the_same_on_every_machine() -> None:
    corpus = "\n".join(Texts("pinned").mixed())
    assert hashlib.sha256(corpus.encode()).hexdigest()[:16] == "12cf878d825823da"


def test_special_tokens_of_another_tokenizer_are_left_room_for() -> None:
    assert len(Texts("none", special_tokens=0).of(16).split()) == 16
    assert len(Texts("three", special_tokens=3).of(16).split()) == 13
