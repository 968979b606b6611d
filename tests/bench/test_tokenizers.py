"""Tokenizer libraries side by side: equal ids are checked before anything is timed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from reference.packaged import locate
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import bench.tokenizers.measure
import bench.tokenizers.process
from bench.tokenizers.command import main
from bench.tokenizers.corpus import (
    CorpusMissing,
    _descriptions,
    descriptions,
    odd_texts,
    of_tokens,
)
from bench.tokenizers.libraries import OURS, REFERENCE
from bench.tokenizers.measure import TokenizersPlan, compare_libraries, without_special_tokens
from bench.tokenizers.process import LibraryFailed, LibraryProcess
from bench.tokenizers.report import tokenizers_markdown
from bench.tokenizers.results import TokenizersResults
from bench.tokenizers.worker import digest
from checkpoint.tokenizer_json import load_tokenizer

COMMITTED = Path(__file__).parents[2] / "bench" / "results" / "tokenizers"
TEXTS = ["the quick fox", "fox", "", "the [CLS] lazy dog. " * 30]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """WordPiece of a handful of pieces."""
    names = ["[UNK]", "[CLS]", "the", "fox", "dog", *"abcdefghijklmnopqrstuvwxyz", "##x", "[", "]"]
    pieces = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[UNK]", "[CLS]"])
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries' environment is ours, which has `tokenizers` alone of them."""
    monkeypatch.setattr(bench.tokenizers.process, "installed_python", lambda: Path(sys.executable))
    monkeypatch.setattr(bench.tokenizers.measure, "LOADS", {8: 3, 20: 2})


def plan(path: Path, *libraries: str) -> TokenizersPlan:
    return TokenizersPlan({"tiny": path}, libraries, TEXTS, odd_texts(40), TEXTS * 20, rounds=2)


def test_each_library_is_checked_and_timed_in_every_round(tiny: Path) -> None:
    results = compare_libraries(plan(tiny, OURS, REFERENCE), lambda _: None)
    assert [row.library for row in results.rows] == [REFERENCE, OURS]
    for row in results.rows:
        assert (row.failure, row.differing, row.odd_differing) == (None, 0, 0)
        assert row.version
        assert [speed.tokens for speed in row.speeds] == [8, 20]
        assert all(speed.microseconds.min > 0 for speed in row.speeds)
    assert all(speed.ratio.median == 1 for speed in results.rows[0].speeds)
    assert "| florilege | " in tokenizers_markdown(results)


def test_library_that_does_not_start_is_named_with_the_reason(tiny: Path) -> None:
    results = compare_libraries(plan(tiny, "tokie"), lambda _: None)
    assert [row.library for row in results.rows] == ["tokie", REFERENCE]
    assert "No module named 'tokie'" in str(results.rows[0].failure)
    page = tokenizers_markdown(results)
    assert "| tiny | tokie | ModuleNotFoundError: No module named 'tokie' |" in page


def test_texts_with_other_ids_are_counted(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = LibraryProcess.start

    def wrong(name: str, tokenizer: Path) -> LibraryProcess:
        process = start(name, tokenizer)
        if name == OURS:
            right = process.digests
            changed: Callable[[Path], list[str | None]]
            changed = lambda path: [digest([1]), *right(path)[1:-1], None]  # noqa: E731
            monkeypatch.setattr(process, "digests", changed)
        return process

    monkeypatch.setattr(LibraryProcess, "start", wrong)
    rows = compare_libraries(plan(tiny, OURS), lambda _: None).rows
    assert [(row.differing, row.odd_differing) for row in rows] == [(0, 0), (1, 1)]


def test_process_that_ends_is_a_failure(tiny: Path) -> None:
    process = LibraryProcess.start(REFERENCE, tiny)
    with pytest.raises(LibraryFailed, match="TypeError"):
        process.seconds([3])  # type: ignore[list-item]


def test_digests_tell_ids_apart() -> None:
    assert digest([1, 2]) == digest((1, 2)) != digest([2, 1])
    assert digest([]) != digest([0])


@pytest.mark.parametrize("name", ["minilm", "e5", "qwen3"])
def test_names_of_special_tokens_are_text_as_they_are_to_the_server(name: str) -> None:
    data = locate(name).read_bytes()
    served = load_tokenizer(data, 300_000).tokenizer
    parsed = {**json.loads(data), "truncation": None, "padding": None}
    compared = Tokenizer.from_str(json.dumps(without_special_tokens(parsed)))
    texts = ["[CLS] a [SEP]", "<s>a</s> <mask>", "<|im_start|>x<think>", *odd_texts(150)]
    for text in texts:
        ids = served.encode(text, add_special_tokens=False).ids
        assert compared.encode(text, add_special_tokens=False).ids == ids


def test_odd_texts_are_the_same_every_time_and_can_be_encoded() -> None:
    texts = odd_texts(400)
    assert texts == odd_texts(400)
    assert len(texts) == 400
    assert all(text.encode() is not None for text in texts)


def test_descriptions_are_read_with_their_titles() -> None:
    page = (
        "Package: a\nDescription-md5: 00\nDescription-de: Titel\n Zeile eins\n .\n zwei\n\n"
        "Package: b\nDescription-md5: 01\nDescription-de: Kurz\n"
    )
    assert list(_descriptions(page)) == ["Titel\nZeile eins\n\nzwei", "Kurz"]


def test_machine_without_descriptions_is_told_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(CorpusMissing, match="apt-get update -o Acquire::Languages=en,de,fr,ja"):
        descriptions(tmp_path)


def test_texts_of_a_length_are_new_each() -> None:
    texts = of_tokens([f"text number {n}" for n in range(200)], 16, 9)
    assert len(set(texts)) == 9
    assert {len(text) for text in texts} == {64}


def test_file_that_is_not_there_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--tokenizers", "x=/no/such/tokenizer.json"])
    assert "bench: no /no/such/tokenizer.json here" in capsys.readouterr().err


def test_committed_pages_are_those_of_their_results() -> None:
    paths = sorted(COMMITTED.glob("*.json"))
    assert paths
    for path in paths:
        results = TypeAdapter(TokenizersResults).validate_json(path.read_bytes())
        assert path.with_suffix(".md").read_text() == tokenizers_markdown(results)
