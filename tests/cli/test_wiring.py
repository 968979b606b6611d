"""Loading a model by its settings."""

import json
from pathlib import Path

import pytest
from reference.sharp import write_checkpoint

from checkpoint.errors import CheckpointError
from cli.loading import load_model
from cli.settings import load_settings
from engine.errors import EngineError


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_attention_heads", "4"),
        ("num_hidden_layers", "2"),
        ("id2label", 5),
        ("layer_norm_eps", "x"),
        ("hidden_act", 3),
        ("architectures", "BertModel"),
    ],
)
def test_config_that_makes_no_sense_is_an_error_of_the_checkpoint(
    tmp_path: Path, key: str, value: object
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises((CheckpointError, EngineError)):
        load_model(load_settings({"dtype": "float32"}, {}), str(directory))


def test_truncated_weights_are_an_error_of_the_checkpoint(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-cls", directory)
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(EngineError, match=r"model\.safetensors"):
        load_model(load_settings({}, {}), str(directory))


def test_reranker_without_room_for_a_pair_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    settings = load_settings({"dtype": "float32", "max_input_tokens": 8}, {})
    with pytest.raises(CheckpointError, match="too few"):
        load_model(settings, str(directory))
