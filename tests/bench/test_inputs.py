"""What requests hold: exact texts, mixed lengths, a user's own, token ids."""

from itertools import islice
from pathlib import Path

import pytest

from bench.inputs import Inputs, InputSource, InputsUnreadable, read_corpus, read_encoder
from bench.options import InputOptions
from bench.sent import choose_inputs
from bench.texts import Texts, mixed_lengths
from checkpoint.find import DEFAULT_MODEL, find_model

TOKENIZER = find_model(DEFAULT_MODEL).directory / "tokenizer.json"


def options(
    *, tokens: bool = False, corpus: Path | None = None, max_tokens: int | None = None
) -> InputOptions:
    return InputOptions("tokens" if tokens else "text", None, corpus, False, max_tokens)


def words(inputs: Inputs, size: str, count: int) -> list[int]:
    return [len(inputs.text_of(size).split()) for _ in range(count)]  # type: ignore[arg-type]


def test_mixed_lengths_are_those_of_the_mixed_corpus_in_another_order() -> None:
    lengths = words(Inputs(Texts("a", special_tokens=0), seed="a"), "mixed", 2 * 256)
    for half in (lengths[:256], lengths[256:]):
        assert sorted(half) == sorted(mixed_lengths())
        assert half != sorted(half)


def test_mixed_lengths_end_at_the_models_limit() -> None:
    source = InputSource(limit=100)
    assert max(words(Inputs(Texts("a", special_tokens=0), source), "mixed", 256)) == 100


def test_every_line_of_a_corpus_comes_before_any_comes_again() -> None:
    lines = [f"line {number}" for number in range(20)]
    inputs = Inputs(Texts("a"), InputSource(corpus=lines), seed="a")
    first, second = ([inputs.of("corpus") for _ in lines] for _ in range(2))
    assert set(first) == set(second) == set(lines)
    assert lines != first != second


def test_same_seed_draws_the_same_inputs() -> None:
    source = InputSource(corpus=[str(number) for number in range(50)])
    draws = [
        [inputs.of(size) for size in ("corpus", "mixed", 16, "corpus", "mixed")]
        for inputs in (Inputs(Texts(seed), source, seed) for seed in ("a", "a", "b"))
    ]
    assert draws[0] == draws[1] != draws[2]


def test_corpus_is_one_text_a_line_without_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_text("erster Text\n\n  zweiter\u2028mit Trenner \n", encoding="utf-8")
    assert read_corpus(path) == ["erster Text", "zweiter\u2028mit Trenner"]


@pytest.mark.parametrize("content", [None, b"\n \n", b"\xff\xfe"])
def test_file_without_texts_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "texts"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputsUnreadable, match="texts"):
        read_corpus(path)


def test_token_ids_are_those_of_the_tokenizer_and_special_ones_among_them() -> None:
    encode = read_encoder(TOKENIZER)
    assert encode(["hello world", "a"]) == [[101, 7592, 2088, 102], [101, 1037, 102]]
    inputs = Inputs(Texts("a"), InputSource(encode=encode))
    assert [len(inputs.of(size)) for size in (16, 300)] == [16, 300]


def test_file_that_is_no_tokenizer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(InputsUnreadable, match=r"tokenizer\.json"):
        read_encoder(path)


def test_our_server_is_told_that_ids_are_its_models_own() -> None:
    sent = choose_inputs(options(tokens=True), {"id": DEFAULT_MODEL})
    assert sent.fields == {"token_input": "native"}
    assert "token arrays" in sent.about
    assert choose_inputs(options(), {"id": "m"}).fields == {}


def test_tokenizer_of_another_model_has_to_be_given() -> None:
    with pytest.raises(InputsUnreadable, match=r"--tokenizer FILE, org/other's"):
        choose_inputs(options(tokens=True), {"id": "org/other"})


@pytest.mark.parametrize(
    ("said", "told", "limit"),
    [(None, {"max_model_len": 256}, 256), (64, {"max_model_len": 256}, 64), (None, {}, 512)],
)
def test_limit_is_what_the_server_tells_unless_one_is_given(
    said: int | None, told: dict[str, int], limit: int
) -> None:
    assert choose_inputs(options(max_tokens=said), {"id": "m", **told}).limit == limit


def test_corpus_is_named_in_what_was_sent_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("a\nb\n")
    sent = choose_inputs(options(corpus=path), {"id": "m"})
    assert "2 lines of mine.txt" in sent.about
    assert str(tmp_path) not in sent.about
    drawn = Inputs(Texts("a"), sent.source)
    assert {*islice(iter(lambda: drawn.of("corpus"), None), 2)} == {"a", "b"}
