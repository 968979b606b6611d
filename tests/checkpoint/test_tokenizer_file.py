import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import Read, write_files
from tokenizers import Tokenizer

from checkpoint.errors import CheckpointNotFound, UnsupportedCheckpoint
from checkpoint.read import read_tokenizer
from checkpoint.tokenizer import TextTokenizer

# As published with gte-Qwen2.
OWN_CODE = {"auto_map": {"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", None]}}
ENDS = {"add_eos_token": True, "eos_token": "</s>", **OWN_CODE}


def served(directory: Path, tokenizer_json: bytes, config: Mapping[str, Any]) -> Tokenizer:
    files = {"tokenizer.json": tokenizer_json, "tokenizer_config.json": config}
    write_files(directory, files)
    return Tokenizer.from_buffer(read_tokenizer(directory))


@pytest.mark.parametrize("token", ["</s>", {"content": "</s>", "special": True}])
def test_end_token_that_the_model_pools_is_appended(
    bare_json: bytes, tmp_path: Path, token: Any
) -> None:
    """A bare tokenizer of gte-Qwen2's kind: its end token is asked for beside it."""
    own = Tokenizer.from_buffer(bare_json)
    tokenizer = served(tmp_path, bare_json, {**ENDS, "eos_token": token})
    for text in ("the quick fox", ""):
        assert tokenizer.encode(text).ids == [*own.encode(text).ids, 2]
    assert tokenizer.encode("the", "fox").ids == [
        *own.encode("the").ids,
        2,
        *own.encode("fox").ids,
        2,
    ]
    cut = TextTokenizer(read_tokenizer(tmp_path), 8, 400).encode(["the fox " * 9], truncate=True)
    assert cut.input_ids.size == 8
    assert cut.input_ids[-1] == 2


def test_end_token_is_appended_where_only_the_models_code_is_named(
    bare_json: bytes, tmp_path: Path
) -> None:
    write_files(tmp_path, {"config.json": {"auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}})
    tokenizer = served(tmp_path, bare_json, {"add_eos_token": True, "eos_token": "</s>"})
    assert tokenizer.encode("fox").ids[-1] == 2


@pytest.mark.parametrize("kind", ["BertTokenizer", "MPNetTokenizerFast", None])
@pytest.mark.parametrize("lowers", [True, False])
def test_case_that_two_files_disagree_on_is_refused(
    wordpiece_json: bytes, tmp_path: Path, kind: str | None, lowers: bool
) -> None:
    parsed = json.loads(wordpiece_json)
    parsed["normalizer"]["lowercase"] = lowers
    tokenizer_json = json.dumps(parsed).encode()
    named = {} if kind is None else {"tokenizer_class": kind}
    for agreed in ({"do_lower_case": lowers}, {"do_lower_case": None}, {}):
        served(tmp_path, tokenizer_json, {**named, **agreed})
    with pytest.raises(UnsupportedCheckpoint, match=r"tokenizer_config\.json: do_lower_case is"):
        served(tmp_path, tokenizer_json, {**named, "do_lower_case": not lowers})


def test_case_is_the_files_own_where_the_class_takes_it_from_there(
    wordpiece_json: bytes, bare_json: bytes, tmp_path: Path
) -> None:
    kept = {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"}
    assert served(tmp_path, wordpiece_json, kept).encode("Fox").ids[:3] == [101, 4419, 102]
    served(tmp_path, bare_json, {"do_lower_case": True})


def test_tokens_before_the_text_stay(bare_json: bytes, tmp_path: Path) -> None:
    parsed = json.loads(bare_json)
    parsed["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    }
    ids = served(tmp_path, json.dumps(parsed).encode(), ENDS).encode("fox").ids
    assert (ids[0], ids[-1]) == (0, 2)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {**ENDS, "add_eos_token": False},
        {**ENDS, "add_eos_token": None},
        {"eos_token": "</s>", **OWN_CODE},
        {"add_eos_token": True, "eos_token": "</s>"},
        {"add_eos_token": True, "eos_token": "</s>", "tokenizer_class": "LlamaTokenizerFast"},
    ],
)
def test_tokenizer_that_asks_for_nothing_is_served_as_it_is(
    bare_json: bytes, tmp_path: Path, config: Any
) -> None:
    served(tmp_path, bare_json, config)
    assert read_tokenizer(tmp_path) == bare_json


def test_end_token_that_is_there_is_not_doubled(bpe_json: bytes, tmp_path: Path) -> None:
    served(tmp_path, bpe_json, ENDS)
    assert read_tokenizer(tmp_path) == bpe_json


@pytest.mark.parametrize("token", ["<eos>", None, 2])
def test_end_token_that_does_not_exist_is_refused(
    bare_json: bytes, tmp_path: Path, token: Any
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="eos_token"):
        served(tmp_path, bare_json, {**ENDS, "eos_token": token})


def test_broken_tokenizer_is_refused_before_a_token_is_added(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"tokenizer\.json is of no use"):
        served(tmp_path, b"{}", ENDS)


def test_checksum_is_of_what_is_served(read: Read, bare_json: bytes, tmp_path: Path) -> None:
    plain, _ = read({"tokenizer.json": bare_json})
    ended, _ = read({"tokenizer.json": bare_json, "tokenizer_config.json": ENDS})
    assert plain.tokenizer_sha256 != ended.tokenizer_sha256


def test_missing_tokenizer_says_what_would_write_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFound, match=r"tokenizer\.json is missing: .*save_pretrained"):
        read_tokenizer(tmp_path)
    (tmp_path / "vocab.txt").touch()
    with pytest.raises(CheckpointNotFound, match=r"missing \(vocab\.txt alone will not do\)"):
        read_tokenizer(tmp_path)
