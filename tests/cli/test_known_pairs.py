"""What a reranker is asked before it serves."""

import io
from pathlib import Path

import pytest
from reference.sharp import write_checkpoint
from safetensors.numpy import load_file, save_file

from checkpoint.spec import ModelSpec
from cli.loading import load_model
from cli.settings import load_settings
from engine.errors import SelfTestFailed
from observability.logs import configure_logs


@pytest.fixture
def reranker(tmp_path: Path) -> Path:
    directory = tmp_path / "reranker"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    return directory


def load(directory: Path, **flags: object) -> ModelSpec:
    return load_model(load_settings({"dtype": "float32", **flags}, {}), str(directory)).spec


def set_head(directory: Path, name: str, value: float) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    tensors[name] = tensors[name] * value
    save_file(tensors, path)


def test_reranker_that_scores_every_pair_alike_does_not_serve(reranker: Path) -> None:
    set_head(reranker, "classifier.weight", 0.0)
    with pytest.raises(SelfTestFailed):
        load(reranker)
    assert load(reranker, self_test="off").runtime["self_test"] is None


def test_wrong_order_of_a_known_pair_is_told_and_served(reranker: Path) -> None:
    # A random reranker and its negation: one of the two puts some irrelevant text first.
    results = [load(reranker).runtime["self_test"]["ranks_known_pair"]]
    set_head(reranker, "classifier.weight", -1.0)
    output = io.StringIO()
    configure_logs(stream=output)
    results.append(load(reranker).runtime["self_test"]["ranks_known_pair"])
    assert False in results
    assert (results[1] is False) == ("known_pair_ranked_wrongly" in output.getvalue())


def test_embedding_model_is_asked_for_no_pairs(tmp_path: Path) -> None:
    directory = tmp_path / "embedder"
    directory.mkdir()
    write_checkpoint("bert-cls", directory)
    assert load(directory).runtime["self_test"]["ranks_known_pair"] is None
