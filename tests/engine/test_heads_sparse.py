"""Sparse vectors: the masked LM's as SPLADE pools them, and bge-m3's lexical weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hidden_states import VOCABULARY, WIDTH, HiddenStates, backbone, random_tensors
from safetensors.torch import save_file
from torch import Tensor

from checkpoint.spec import Module
from engine.errors import CheckpointError
from engine.heads.head import Answer
from engine.heads.lexical import load_lexical_head
from engine.heads.masked_lm import MlmHead
from engine.heads.splade import load_splade_head

LENGTHS = [7, 1, 40, 7, 300, 3, 40, 7]
NAMES = MlmHead(
    dense="mlm.dense",
    norm="mlm.norm",
    decoder="mlm.decoder",
    biases=("mlm.bias", "mlm.decoder.bias"),
    embeddings="words.weight",
    hidden_act="hidden_act",
)
CONFIG = {"hidden_act": "gelu", "layer_norm_eps": 0.01}
TENSORS = random_tensors(
    mlm__dense__weight=(WIDTH, WIDTH),
    mlm__dense__bias=(WIDTH,),
    mlm__norm__weight=(WIDTH,),
    mlm__norm__bias=(WIDTH,),
    mlm__bias=(VOCABULARY,),
    words__weight=(VOCABULARY, WIDTH),
)
POOLED = {"max": lambda weights: weights.amax(0), "sum": lambda weights: weights.sum(0)}
POOLING = Module("SpladePooling", Path("1_SpladePooling"), {})


def pooling(strategy: str, activation: str) -> Module:
    config = {"pooling_strategy": strategy, "activation_function": activation}
    return Module("SpladePooling", Path("1_SpladePooling"), config)


def logits(states: Tensor, tensors: Any = TENSORS, decoder: str = "words") -> Tensor:
    """[tokens, V] in float64."""
    w = {name: tensor.double() for name, tensor in tensors.items()}
    x = F.gelu(states @ w["mlm.dense.weight"].T + w["mlm.dense.bias"])
    centred = x - x.mean(-1, keepdim=True)
    x = centred / (centred.square().mean(-1, keepdim=True) + 0.01).sqrt()
    x = x * w["mlm.norm.weight"] + w["mlm.norm.bias"]
    return x @ w[f"{decoder}.weight"].T + w["mlm.bias"]


def dense(answer: Answer, sequences: int) -> np.ndarray:
    """[B, V]. Each id stands once, in ascending order."""
    assert answer.indices is not None
    assert answer.row_offsets is not None
    assert answer.rows.shape == (answer.indices.size, 1)
    assert (answer.indices.dtype, answer.row_offsets.dtype) == (np.int32, np.int32)
    rows = np.zeros((sequences, VOCABULARY), np.float32)
    for i in range(sequences):
        entries = slice(*answer.row_offsets[i : i + 2])
        assert (np.diff(answer.indices[entries]) > 0).all()
        rows[i, answer.indices[entries]] = answer.rows[entries, 0]
    return rows


@pytest.mark.parametrize(
    ("module", "weights"),
    [
        (None, lambda x: x.relu().log1p().amax(0)),
        (POOLING, lambda x: x.relu().log1p().amax(0)),
        (pooling("max", "relu"), lambda x: x.relu().log1p().amax(0)),
        (pooling("sum", "relu"), lambda x: x.relu().log1p().sum(0)),
        (pooling("max", "log1p_relu"), lambda x: x.relu().log1p().log1p().amax(0)),
        (pooling("sum", "log1p_relu"), lambda x: x.relu().log1p().log1p().sum(0)),
    ],
    ids=["alone", "defaults", "max", "sum", "max-log1p", "sum-log1p"],
)
def test_splade_weights_are_those_of_the_definition(
    module: Module | None, weights: Any, tmp_path: Path
) -> None:
    source = backbone(tmp_path, TENSORS, CONFIG)
    head = load_splade_head(source, NAMES, module)
    source.weights.finish()
    hidden = HiddenStates.random(LENGTHS, kind="sparse")
    answer = hidden.answered(head)
    expected = hidden.expected(lambda states: weights(logits(states)))
    np.testing.assert_allclose(dense(answer, len(LENGTHS)), expected, rtol=1e-5, atol=1e-5)
    assert answer.rows.min() > 0
    assert answer.rows.size == np.count_nonzero(expected)
    assert (expected == 0).any()


@pytest.mark.parametrize("chunk_tokens", [1, 7, 20, 64, 300, 1000])
@pytest.mark.parametrize("strategy", ["max", "sum"])
def test_weights_do_not_depend_on_what_is_computed_at_a_time(
    strategy: str, chunk_tokens: int, tmp_path: Path
) -> None:
    head = load_splade_head(backbone(tmp_path, TENSORS, CONFIG), NAMES, pooling(strategy, "relu"))
    hidden = HiddenStates.random(LENGTHS, kind="sparse")
    answer = hidden.answered(replace(head, chunk_tokens=chunk_tokens))
    weights = hidden.expected(lambda s: POOLED[strategy](logits(s).relu().log1p()))
    np.testing.assert_allclose(dense(answer, len(LENGTHS)), weights, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("tied", "decoder"), [(None, "words"), (True, "words"), (False, "mlm.decoder")]
)
def test_decoder_is_the_embeddings_unless_config_json_denies_it(
    tied: bool | None, decoder: str, tmp_path: Path
) -> None:
    own = random_tensors(x=(1,), mlm__decoder__weight=(VOCABULARY, WIDTH))
    tensors = {**TENSORS, "mlm.decoder.weight": own["mlm.decoder.weight"]}
    tensors["mlm.decoder.bias"] = torch.ones(VOCABULARY)  # a tie that was saved twice
    config = CONFIG if tied is None else {**CONFIG, "tie_word_embeddings": tied}
    source = backbone(tmp_path, tensors, config)
    source.weights.take("words.weight", VOCABULARY, WIDTH)  # the encoder's
    head = load_splade_head(source, NAMES, None)
    source.weights.finish()
    hidden = HiddenStates.random([5, 2], kind="sparse")
    expected = hidden.expected(lambda s: logits(s, tensors, decoder).relu().log1p().amax(0))
    np.testing.assert_allclose(dense(hidden.answered(head), 2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("setting", ["pooling_strategy", "activation_function"])
def test_splade_setting_that_is_unknown_is_named(setting: str, tmp_path: Path) -> None:
    module = Module("SpladePooling", tmp_path, {setting: "median"})
    with pytest.raises(CheckpointError, match=f"{setting} 'median' is not known"):
        load_splade_head(backbone(tmp_path, TENSORS, CONFIG), NAMES, module)


def test_broken_sequence_is_that_one_alone(tmp_path: Path) -> None:
    head = load_splade_head(backbone(tmp_path, TENSORS, CONFIG), NAMES, None)
    hidden = HiddenStates.random(LENGTHS, kind="sparse")
    hidden.sequences[3][2] = torch.nan
    assert hidden.answered(head).finite.tolist() == [
        True,
        True,
        True,
        False,
        True,
        True,
        True,
        True,
    ]


def test_sequence_without_a_weight_has_no_entry(tmp_path: Path) -> None:
    tensors = {**TENSORS, "mlm.bias": torch.full((VOCABULARY,), -1e3)}
    head = load_splade_head(backbone(tmp_path, tensors, CONFIG), NAMES, None)
    answer = HiddenStates.random([3, 4], kind="sparse").answered(head)
    assert answer.rows.shape == (0, 1)
    assert answer.row_offsets is not None
    assert answer.row_offsets.tolist() == [0, 0, 0]
    assert answer.finite.tolist() == [True, True]


@pytest.fixture
def lexical_file(tmp_path: Path) -> Path:
    save_file(random_tensors(weight=(1, WIDTH), bias=(1,)), tmp_path / "sparse_linear.safetensors")
    return tmp_path / "sparse_linear.safetensors"


def test_lexical_weight_is_the_largest_of_an_id(lexical_file: Path) -> None:
    head = load_lexical_head(backbone(lexical_file.parent, TENSORS), lexical_file)
    tensors = random_tensors(weight=(1, WIDTH), bias=(1,))
    hidden = HiddenStates.random([7, 1, 300, 7, 2], kind="sparse")
    expected = np.zeros((5, VOCABULARY))
    for row, states, ids in zip(expected, hidden.sequences, hidden.ids, strict=True):
        weights = (states @ tensors["weight"][0] + tensors["bias"]).relu()
        for token_id, weight in zip(ids.tolist(), weights.tolist(), strict=True):
            if token_id > 3:  # <s>, <pad>, </s>, <unk>
                row[token_id] = max(row[token_id], weight)
    assert any((ids <= 3).any() for ids in hidden.ids)
    np.testing.assert_allclose(dense(hidden.answered(head), 5), expected, atol=1e-6)


def test_special_tokens_have_no_lexical_weight(lexical_file: Path) -> None:
    head = load_lexical_head(backbone(lexical_file.parent, TENSORS), lexical_file)
    hidden = HiddenStates.random([4, 2], kind="sparse")
    hidden.batch.input_ids[:] = [0, 1, 2, 3, 0, 2]
    answer = hidden.answered(head)
    assert answer.rows.shape == (0, 1)
    assert answer.row_offsets is not None
    assert answer.row_offsets.tolist() == [0, 0, 0]


def test_broken_lexical_weight_is_not_dropped(lexical_file: Path) -> None:
    head = load_lexical_head(backbone(lexical_file.parent, TENSORS), lexical_file)
    hidden = HiddenStates.random([7, 4, 7], kind="sparse")
    hidden.batch.input_ids[7:11] = [8, 9, 9, 9]
    hidden.sequences[1][2] = torch.nan
    assert hidden.answered(head).finite.tolist() == [True, False, True]
