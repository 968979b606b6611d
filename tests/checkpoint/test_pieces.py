"""The compiled tokenizer gives the ids of `tokenizers`, or leaves a text to it."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.packaged import locate
from tokenizers import Tokenizer

import checkpoint.pieces
from bench.tokenizers.corpus import odd_texts
from checkpoint.character_table import NotCovered, wordpiece_table
from checkpoint.pieces import PieceEncoder, compiled, piece_encoder
from checkpoint.tokenizer import TextTokenizer
from checkpoint.tokenizer_json import _hide_special_pieces, load_tokenizer

ROWS = 250_002  # of the larger vocabulary
FAULT = None if compiled() else "it was not compiled when this was installed"
IN_CPP = pytest.mark.skipif(FAULT is not None, reason=f"the compiled tokenizer: {FAULT}")

# Characters that are covered beside those that are not, and names of special tokens.
LETTERS = "abeXY zé\t\n.,-'▁ÀßＡ日本かカ한ｶﾞ\r\u0301\u200d😀🏽\x00ªİ½# "
TEXTS = st.one_of(
    st.text(LETTERS, max_size=30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(
        st.sampled_from(["the", " ", "<s>", "</s>", "[CLS]", "##ing", "\r\n", "  ", "日本語", "é"]),
        max_size=12,
    ).map("".join),
)


@pytest.fixture(scope="session")
def library() -> Any:
    path = os.environ.get("SANITIZED_PIECES") or compiled()
    return checkpoint.pieces._load(Path(str(path)))


@pytest.fixture(scope="session")
def e5_json() -> bytes:
    return locate("e5").read_bytes()


class BothWays:
    """One tokenizer.json, as it is compiled and as `tokenizers` reads it."""

    def __init__(self, library: Any, data: bytes) -> None:
        parsed = json.loads(data)
        if parsed["model"]["type"] == "Unigram":
            _hide_special_pieces(parsed)
        self.tokenizer = Tokenizer.from_str(json.dumps(parsed))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.tokenizer.encode_special_tokens = True
        self.encoder: PieceEncoder = checkpoint.pieces._built(library, parsed)[0]

    def check(self, texts: Sequence[str]) -> int:
        """How many of the texts are covered."""
        rows = self.encoder.encode(texts)
        expected = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        for text, row, right in zip(texts, rows, expected, strict=True):
            assert row is None or row.tolist() == right.ids, ascii(text)
        return sum(row is not None for row in rows)


@pytest.fixture(scope="session")
def minilm(library: Any, wordpiece_json: bytes) -> BothWays:
    return BothWays(library, wordpiece_json)


@pytest.fixture(scope="session")
def e5(library: Any, e5_json: bytes) -> BothWays:
    return BothWays(library, e5_json)


def test_it_is_compiled_where_there_is_a_compiler() -> None:
    assert compiled() is not None or shutil.which("g++") is None


# The same ids


@IN_CPP
@pytest.mark.parametrize("name", ["minilm", "e5"])
def test_ids_of_random_texts_are_the_same(name: str, request: pytest.FixtureRequest) -> None:
    both: BothWays = request.getfixturevalue(name)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(TEXTS, max_size=5))
    def check(texts: list[str]) -> None:
        both.check(texts)

    check()


@IN_CPP
@pytest.mark.parametrize(("name", "least"), [("minilm", 1000), ("e5", 300)])
def test_ids_of_odd_texts_are_the_same(
    name: str, least: int, request: pytest.FixtureRequest
) -> None:
    both: BothWays = request.getfixturevalue(name)
    assert both.check(odd_texts()) > least


@IN_CPP
@pytest.mark.parametrize("name", ["minilm", "e5"])
def test_texts_of_living_languages_are_covered(name: str, request: pytest.FixtureRequest) -> None:
    texts = [
        "The quick brown fox, it's said, jumps over 13 lazy dogs!",
        "Übergrößenträger & Straßenbahn – «déjà vu», señor, čeština, Łódź",
        "Быстрая коричневая лиса. Γρήγορη αλεπού.",
        "日本語のテキスト。カタカナ、中文字符,简体 한국어 문장입니다",
        "line\r\nbreaks\nand\ttabs  and   runs of spaces ",
        "שלום עולם مرحبا بالعالم 😀",
    ]
    both: BothWays = request.getfixturevalue(name)
    assert both.check(texts) == len(texts)


@IN_CPP
def test_what_depends_on_neighbours_is_not_covered(e5: BothWays) -> None:
    joined = ("e\u0301", "a\u200db", "กำ", "\u1112\u1161\u11ab", "👍🏽", "🇫🇷", "ﾊﾟ", "\U00020000")
    assert e5.encoder.encode(joined) == [None] * len(joined)
    assert e5.encoder.encode(["", "\u0301"]) == [None, None]


PIECES = st.text("ab▁é日", min_size=1, max_size=4)
SCORES = st.sampled_from([-1.0, -2.0, -2.5, -4.0, -9.0, 0.0])  # few, so that sums are equal


@IN_CPP
@pytest.mark.parametrize("splits", [False, True])
def test_any_unigram_vocabulary_gives_the_same_ids(
    library: Any, e5_json: bytes, splits: bool
) -> None:
    parsed = json.loads(e5_json)
    parsed["added_tokens"] = []
    parsed["post_processor"] = None
    if splits:
        parts = [{"type": "WhitespaceSplit"}, parsed["pre_tokenizer"]]
        parsed["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}

    @settings(max_examples=150, deadline=None)
    @given(
        st.dictionaries(PIECES, SCORES, max_size=12),
        st.lists(st.text("ab▁é日 x\t", max_size=14), min_size=1, max_size=6),
    )
    def check(pieces: dict[str, float], texts: list[str]) -> None:
        vocab = [["<unk>", 0.0], *([piece, score] for piece, score in pieces.items())]
        parsed["model"] = {"type": "Unigram", "unk_id": 0, "vocab": vocab}
        BothWays(library, json.dumps(parsed).encode()).check(texts)

    check()


@IN_CPP
def test_any_wordpiece_vocabulary_gives_the_same_ids(library: Any, wordpiece_json: bytes) -> None:
    parsed = json.loads(wordpiece_json)
    parsed["added_tokens"] = []
    parsed["post_processor"] = None

    @settings(max_examples=150, deadline=None)
    @given(
        st.sets(st.text("abe日", min_size=1, max_size=3), max_size=8),
        st.sets(st.text("abe日", min_size=1, max_size=3), max_size=8),
        st.lists(st.text("abÉ日 x.", max_size=14), min_size=1, max_size=6),
    )
    def check(first: set[str], later: set[str], texts: list[str]) -> None:
        names = ["[UNK]", *sorted(first), *sorted(f"##{piece}" for piece in later)]
        vocab = {name: index for index, name in enumerate(names)}
        parsed["model"] |= {"max_input_chars_per_word": 6, "vocab": vocab}
        BothWays(library, json.dumps(parsed).encode()).check(texts)

    check()


@IN_CPP
def test_threads_share_one_encoder(e5: BothWays) -> None:
    texts = [["the fox " * n, f"number {n} 日本語"] for n in range(40)]
    alone = [[row.tolist() for row in e5.encoder.encode(pair) if row is not None] for pair in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(e5.encoder.encode, texts * 5))
    assert [[row.tolist() for row in rows if row is not None] for rows in together] == alone * 5


@IN_CPP
def test_no_text_and_the_longest_text(minilm: BothWays, e5: BothWays) -> None:
    for both in (minilm, e5):
        assert both.encoder.encode([]) == []
        assert both.check(["word " * 50_000, "漢" * 20_000, "é" * 20_000]) == 3


# When it is used


@IN_CPP
def test_texts_that_it_does_not_cover_get_their_ids_in_their_place(e5_json: bytes) -> None:
    texts = ["fox", "e\u0301", "dog", "", "👍🏽 fox"]
    own = Tokenizer.from_buffer(e5_json)
    encoded = TextTokenizer(e5_json, 512, ROWS).encode(texts)
    expected = [own.encode(text).ids for text in texts]
    assert encoded.lengths.tolist() == list(map(len, expected))
    assert encoded.input_ids.tolist() == list(chain.from_iterable(expected))


@IN_CPP
def test_other_ids_in_the_check_at_start_switch_it_off(
    wordpiece_json: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parsed = json.loads(wordpiece_json)
    tokenizer = load_tokenizer(wordpiece_json, ROWS).tokenizer
    assert piece_encoder(parsed, tokenizer) is not None

    def wrong(parsed: Mapping[str, object]) -> Any:
        table = wordpiece_table(parsed)
        entries = table.entries.copy()
        entries[ord("Σ")] = entries[ord("b")]  # kept as it is instead of lowered
        return replace(table, entries=entries)

    monkeypatch.setattr(checkpoint.pieces, "wordpiece_table", wrong)
    with caplog.at_level(logging.WARNING):
        assert piece_encoder(parsed, tokenizer) is None
    assert "the compiled tokenizer differs" in caplog.text
    assert TextTokenizer(wordpiece_json, 64, ROWS).encode(["Σ"]).lengths.tolist() == [3]


def test_without_a_compiler_tokenizers_gives_the_same(
    wordpiece_json: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the quick brown fox", "日本語", "e\u0301", ""]
    usual = TextTokenizer(wordpiece_json, 64, ROWS).encode(texts)
    monkeypatch.setattr(checkpoint.pieces, "compiled", lambda: None)
    plain = TextTokenizer(wordpiece_json, 64, ROWS).encode(texts)
    assert plain.input_ids.tolist() == usual.input_ids.tolist()
    assert plain.lengths.tolist() == usual.lengths.tolist()


def test_library_that_cannot_be_loaded_is_told_of(
    wordpiece_json: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = tmp_path / "_pieces.so"
    broken.write_text("no library")
    monkeypatch.setattr(checkpoint.pieces, "compiled", lambda: broken)
    with caplog.at_level(logging.WARNING):
        assert load_tokenizer(wordpiece_json, ROWS).pieces is None
    assert "_pieces.so cannot be loaded" in caplog.text


Change = Callable[[dict[str, Any]], object]
UNCOVERED: Mapping[str, Change] = {
    "another normalizer": lambda parsed: parsed.update(normalizer={"type": "NFKC"}),
    "no normalizer": lambda parsed: parsed.update(normalizer=None),
    "another replacement": lambda parsed: parsed["normalizer"]["normalizers"].append(
        {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}
    ),
    "no pre-tokenizer": lambda parsed: parsed.update(pre_tokenizer=None),
    "words without their ▁": lambda parsed: parsed["pre_tokenizer"].update(
        add_prefix_space=False, prepend_scheme="never"
    ),
    "words that are not split": lambda parsed: parsed["pre_tokenizer"].update(split=False),
    "an added token": lambda parsed: parsed["added_tokens"][0].update(special=False),
    "a piece twice": lambda parsed: parsed["model"]["vocab"].append([",", -3.0]),
    "bytes for what is unknown": lambda parsed: parsed["model"].update(byte_fallback=True),
    "no piece for what is unknown": lambda parsed: parsed["model"].update(unk_id=None),
    "text that means unknown": lambda parsed: parsed["model"].update(
        vocab=[["q", -1.0], ["qq", -3.0]], unk_id=0
    ),
    "scores above 0": lambda parsed: parsed["model"].update(vocab=[["<unk>", 1.0], ["a", 2.0]]),
    "another model": lambda parsed: parsed["model"].update(type="BPE"),
}


@pytest.mark.parametrize("change", UNCOVERED.values(), ids=UNCOVERED)
def test_other_kinds_of_tokenizers_are_left_to_tokenizers(e5_json: bytes, change: Change) -> None:
    parsed = json.loads(e5_json)
    parsed["model"]["vocab"] = parsed["model"]["vocab"][:10]
    change(parsed)
    with pytest.raises(NotCovered):
        checkpoint.pieces._built(None, parsed)


LEFT_OUT: Mapping[str, Change] = {
    "normalizer": lambda parsed: parsed.pop("normalizer"),
    "pre_tokenizer": lambda parsed: parsed.pop("pre_tokenizer"),
    "unknown token": lambda parsed: parsed["model"]["vocab"].pop("[UNK]"),
}


@pytest.mark.parametrize("change", LEFT_OUT.values(), ids=LEFT_OUT)
def test_file_that_leaves_out_what_it_may_is_left_to_tokenizers(
    wordpiece_json: bytes, change: Change
) -> None:
    parsed = json.loads(wordpiece_json)
    tokenizer = load_tokenizer(wordpiece_json, ROWS).tokenizer
    assert piece_encoder(parsed, tokenizer) is not None or checkpoint.pieces.compiled() is None
    change(parsed)
    assert piece_encoder(parsed, tokenizer) is None


def test_no_word_is_too_long_for_a_limit_beyond_all(wordpiece_json: bytes) -> None:
    parsed = json.loads(wordpiece_json)
    parsed["model"]["max_input_chars_per_word"] = 2**32 + 1
    changed = json.dumps(parsed).encode()
    text = "quick" * 30
    own = load_tokenizer(changed, ROWS).tokenizer
    assert (
        TextTokenizer(changed, 512, ROWS).encode([text]).input_ids.tolist() == own.encode(text).ids
    )
