from typing import Any

import pytest
from checkpoint_files import BERT, XLM_ROBERTA, Read, own_config

from checkpoint.errors import CheckpointError, UnsupportedCheckpoint
from checkpoint.families import FAMILIES


@pytest.mark.parametrize(
    ("files", "tokens", "source"),
    [
        ({}, 64, "config.json"),
        ({"sentence_bert_config.json": {"max_seq_length": 48}}, 48, "sentence_bert_config.json"),
        ({"sentence_bert_config.json": {"max_seq_length": 128}}, 64, "config.json"),
        ({"sentence_bert_config.json": {"max_seq_length": None}}, 64, "config.json"),
        ({"sentence_bert_config.json": {}}, 64, "config.json"),
        ({"tokenizer_config.json": {"model_max_length": 32}}, 32, "tokenizer_config.json"),
        ({"tokenizer_config.json": {"model_max_length": int(1e30)}}, 64, "config.json"),
        ({"tokenizer_config.json": {"model_max_length": 1e30}}, 64, "config.json"),
        (
            {
                "sentence_bert_config.json": {"max_seq_length": 48},
                "tokenizer_config.json": {"model_max_length": 32},
            },
            48,
            "sentence_bert_config.json",
        ),
        (
            {"sentence_roberta_config.json": {"max_seq_length": 40}},
            40,
            "sentence_roberta_config.json",
        ),
        ({"tokenizer.json": {"truncation": {"max_length": 16}}}, 64, "config.json"),
    ],
)
def test_limit_is_what_the_checkpoint_asks_for_within_its_positions(
    read: Read, files: dict[str, Any], tokens: int, source: str
) -> None:
    spec, _ = read(files)
    assert (spec.max_tokens, spec.max_tokens_source) == (tokens, source)


@pytest.mark.parametrize(("padding", "tokens"), [(1, 64), (0, 65), (None, 64)])
def test_roberta_has_fewer_positions_than_rows(
    read: Read, padding: int | None, tokens: int
) -> None:
    config = dict(XLM_ROBERTA) if padding is None else {**XLM_ROBERTA, "pad_token_id": padding}
    if padding is None:
        del config["pad_token_id"]  # transformers' default: 1
    assert read({"config.json": config})[0].max_tokens == tokens
    with pytest.raises(CheckpointError):
        read({"config.json": config}, max_input_tokens=tokens + 1)


def test_roberta_without_a_padding_id_is_refused(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="pad_token_id None"):
        read({"config.json": {**XLM_ROBERTA, "pad_token_id": None}})


def test_table_that_padding_uses_up_leaves_no_position(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="leaves no position"):
        read({"config.json": {**XLM_ROBERTA, "max_position_embeddings": 2}})


@pytest.mark.parametrize("tokens", [16, 48, 64])
def test_operator_may_move_the_limit_within_the_positions(read: Read, tokens: int) -> None:
    files = {"sentence_bert_config.json": {"max_seq_length": 32}}
    spec, _ = read(files, max_input_tokens=tokens)
    assert (spec.max_tokens, spec.max_tokens_source) == (tokens, "--max-input-tokens")


@pytest.mark.parametrize("tokens", [65, 0, -1])
def test_operator_cannot_make_up_positions(read: Read, tokens: int) -> None:
    with pytest.raises(CheckpointError, match=f"--max-input-tokens {tokens}.* 64 positions"):
        read(max_input_tokens=tokens)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", None),
        ("hidden_size", 0),
        ("vocab_size", "many"),
        ("vocab_size", True),
        ("max_position_embeddings", None),
        ("max_position_embeddings", 0),
    ],
)
def test_config_without_a_size_is_refused_by_name(read: Read, key: str, value: Any) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=key):
        read({"config.json": {**BERT, key: value}})


def test_positions_of_mpnet_begin_at_two_whatever_its_padding(read: Read) -> None:
    config = {**own_config(FAMILIES["mpnet"], "MPNetForMaskedLM"), "pad_token_id": 0}
    assert read({"config.json": config})[0].max_tokens == 62


def test_rotated_positions_end_where_training_did(read: Read) -> None:
    for name in ("new", "modernbert", "llama", "gemma3"):
        family = FAMILIES[name]
        config = own_config(family, family.embed[0])
        asked = {"tokenizer_config.json": {"model_max_length": 131072}}
        spec, _ = read({"config.json": config, **asked})
        assert (spec.max_tokens, spec.max_tokens_source) == (64, "config.json")


NOMIC = {
    **own_config(FAMILIES["nomic_bert"], "NomicBertModel"),
    "max_trained_positions": 2048,
    "n_positions": 8192,
}
ASKS_FOR_ALL = {"sentence_bert_config.json": {"max_seq_length": 8192}}


def test_nomic_goes_beyond_its_training_only_when_told_to(read: Read) -> None:
    spec, _ = read({"config.json": NOMIC, **ASKS_FOR_ALL})
    assert (spec.max_tokens, spec.max_tokens_source) == (2048, "config.json")
    for tokens in (512, 4096, 8192):
        spec, _ = read({"config.json": NOMIC, **ASKS_FOR_ALL}, max_input_tokens=tokens)
        assert (spec.max_tokens, spec.max_tokens_source) == (tokens, "--max-input-tokens")
    with pytest.raises(CheckpointError, match="8192 positions"):
        read({"config.json": NOMIC}, max_input_tokens=8193)
    scaled = {**NOMIC, "rotary_scaling_factor": 2}
    with pytest.raises(CheckpointError, match="2048 positions"):
        read({"config.json": scaled}, max_input_tokens=4096)


def test_nomic_in_the_style_of_transformers_has_one_limit(read: Read) -> None:
    native = {k: v for k, v in NOMIC.items() if k not in ("max_trained_positions", "n_positions")}
    native["max_position_embeddings"] = 2048
    assert read({"config.json": native, **ASKS_FOR_ALL})[0].max_tokens == 2048
    with pytest.raises(CheckpointError, match="2048 positions"):
        read({"config.json": native}, max_input_tokens=2049)


@pytest.mark.parametrize("name", ["distilbert", "albert", "xlnet"])
def test_settings_are_found_under_every_name_they_had(read: Read, name: str) -> None:
    files = {f"sentence_{name}_config.json": {"max_seq_length": 24}}
    spec, _ = read(files)
    assert (spec.max_tokens, spec.max_tokens_source) == (24, f"sentence_{name}_config.json")
