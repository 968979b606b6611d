"""Each head of a reranker computes its formula; one that cannot be a score is refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hidden_states import WIDTH, HiddenStates, backbone, random_tensors
from torch import Tensor

from engine.errors import CheckpointError
from engine.families.bert import BERT
from engine.families.roberta import ROBERTA
from engine.heads.head import Head, LoadHead
from engine.heads.scores import (
    classifier,
    load_last_token_classifier,
    load_modernbert_classifier,
    load_yes_no_head,
)

HIDDEN = HiddenStates.random([7, 1, 40, 7, 150, 3], kind="score")
LAYER = (WIDTH, WIDTH)
DISTILBERT = classifier("pre_classifier", torch.relu, "classifier")


def assert_scores(head: Head, expected: np.ndarray) -> None:
    rows = HIDDEN.answered(head).rows
    assert rows.shape == (6, 1)
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def linear(tensors: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    y = tensors[f"{name}.weight"].double() @ x
    return y + tensors[f"{name}.bias"].double() if f"{name}.bias" in tensors else y


@pytest.mark.parametrize(
    ("load", "dense", "activation", "output"),
    [
        (BERT.load_score_head, "pooler.dense", torch.tanh, "classifier"),
        (ROBERTA.load_score_head, "classifier.dense", torch.tanh, "classifier.out_proj"),
        (DISTILBERT, "pre_classifier", torch.relu, "classifier"),
    ],
    ids=["bert", "roberta", "distilbert"],
)
def test_classifier_reads_the_first_token(
    load: LoadHead, dense: str, activation: Any, output: str, tmp_path: Path
) -> None:
    tensors = random_tensors(
        **{f"{dense}.weight": LAYER, f"{dense}.bias": (WIDTH,)},
        **{f"{output}.weight": (1, WIDTH), f"{output}.bias": (1,)},
    )
    head = load(backbone(tmp_path, tensors))
    expected = HIDDEN.expected(
        lambda states: linear(tensors, output, activation(linear(tensors, dense, states[0])))
    )
    assert_scores(head, expected)


def modernbert_tensors(classifier_bias: bool, norm_bias: bool) -> dict[str, Tensor]:
    tensors = random_tensors(
        head__dense__weight=LAYER,
        head__dense__bias=(WIDTH,),
        head__norm__weight=(WIDTH,),
        head__norm__bias=(WIDTH,),
        classifier__weight=(1, WIDTH),
        classifier__bias=(1,),
    )
    if not classifier_bias:
        del tensors["head.dense.bias"]
    if not norm_bias:
        del tensors["head.norm.bias"]
    return tensors


def modernbert_score(tensors: Mapping[str, Tensor], activation: Any, pooled: Tensor) -> Tensor:
    x = activation(linear(tensors, "head.dense", pooled))
    x = (x - x.mean()) / (x.var(correction=0) + 0.01).sqrt() * tensors["head.norm.weight"].double()
    return linear(tensors, "classifier", x + tensors.get("head.norm.bias", torch.zeros(1)).double())


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("config", "activation"),
    [({}, F.gelu), ({"classifier_activation": "relu"}, torch.relu)],
    ids=["gelu", "relu"],
)
@pytest.mark.parametrize(
    ("pooling", "pool"),
    [
        ({}, lambda states: states[0]),
        ({"classifier_pooling": "cls"}, lambda states: states[0]),
        ({"classifier_pooling": "mean"}, lambda states: states.mean(0)),
    ],
    ids=["default", "cls", "mean"],
)
def test_modernbert_classifier_is_what_config_json_says(
    pooling: Any, pool: Any, config: Any, activation: Any, biased: bool, tmp_path: Path
) -> None:
    tensors = modernbert_tensors(classifier_bias=biased, norm_bias=biased)
    config = {"norm_eps": 0.01, "classifier_bias": biased, "norm_bias": biased, **config, **pooling}
    source = backbone(tmp_path, tensors, config)
    head = load_modernbert_classifier(source)
    source.weights.finish()
    assert_scores(head, HIDDEN.expected(lambda s: modernbert_score(tensors, activation, pool(s))))


def test_modernbert_pooling_that_is_unknown_is_named(tmp_path: Path) -> None:
    source = backbone(tmp_path, modernbert_tensors(False, False), {"classifier_pooling": "max"})
    with pytest.raises(CheckpointError, match="classifier_pooling 'max' is not known: cls, mean"):
        load_modernbert_classifier(source)


def test_score_of_a_causal_model_reads_the_last_token(tmp_path: Path) -> None:
    tensors = random_tensors(score__weight=(1, WIDTH))
    head = load_last_token_classifier(backbone(tmp_path, tensors))
    assert_scores(head, HIDDEN.expected(lambda states: linear(tensors, "score", states[-1])))


def test_score_of_a_causal_model_reads_the_last_token_that_is_not_padding(tmp_path: Path) -> None:
    pad = 5
    ids = [[7, 8, 9], [7, pad, 9, pad], [pad, 8, pad, pad], [pad], [pad, pad, pad], [7, pad, pad]]
    lengths = [len(sequence) for sequence in ids]
    random = HiddenStates.random(lengths, kind="score")
    batch = replace(random.batch, input_ids=np.concatenate(ids).astype(np.int32))
    tensors = random_tensors(score__weight=(1, WIDTH))
    head = load_last_token_classifier(backbone(tmp_path, tensors, {"pad_token_id": pad}))
    chosen = zip(random.sequences, [2, 2, 1, 0, 0, 0], strict=True)
    expected = [linear(tensors, "score", states.double()[place]) for states, place in chosen]
    rows = replace(random, batch=batch).answered(head).rows
    np.testing.assert_allclose(rows, torch.stack(expected), atol=1e-5)


def test_padding_id_that_is_no_integer_is_named(tmp_path: Path) -> None:
    source = backbone(tmp_path, random_tensors(score__weight=(1, WIDTH)), {"pad_token_id": "5"})
    with pytest.raises(CheckpointError, match="pad_token_id is '5', a str and not an integer"):
        load_last_token_classifier(source)


@pytest.mark.parametrize(
    ("config", "matrices", "used"),
    [
        ({}, ["embed_tokens"], "embed_tokens"),
        ({"tie_word_embeddings": True}, ["embed_tokens"], "embed_tokens"),
        ({"tie_word_embeddings": True}, ["embed_tokens", "lm_head"], "embed_tokens"),
        ({"tie_word_embeddings": False}, ["embed_tokens", "lm_head"], "lm_head"),
        ({}, ["embed_tokens", "lm_head"], "lm_head"),
    ],
)
def test_yes_no_score_is_the_difference_of_two_logits(
    config: Any, matrices: list[str], used: str, tmp_path: Path
) -> None:
    tensors = random_tensors(**{f"{name}.weight": (97, WIDTH) for name in matrices})
    source = backbone(tmp_path, tensors, config)
    source.weights.take("embed_tokens.weight", 97, WIDTH)  # the encoder's
    head = load_yes_no_head(source, (31, 5))
    source.weights.finish()

    def score(states: Tensor) -> Tensor:
        logits = linear(tensors, used, states[-1])
        return logits[31:32] - logits[5:6]

    assert_scores(head, HIDDEN.expected(score))
    swapped = HIDDEN.answered(load_yes_no_head(source, (5, 31))).rows
    np.testing.assert_allclose(swapped, -HIDDEN.expected(score), atol=1e-5)


def test_yes_no_head_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    tensors = random_tensors(embed_tokens__weight=(97, WIDTH))
    with pytest.raises(CheckpointError, match=r"'lm_head\.weight' is missing"):
        load_yes_no_head(backbone(tmp_path, tensors, {"tie_word_embeddings": False}), (1, 2))
    with pytest.raises(CheckpointError, match="has 97 rows, none 97"):
        load_yes_no_head(backbone(tmp_path, tensors), (1, 97))


@pytest.mark.parametrize(
    ("load", "tensors", "output"),
    [
        (DISTILBERT, {"pre_classifier.weight": LAYER, "pre_classifier.bias": (WIDTH,)}, ""),
        (load_last_token_classifier, {}, "score"),
        (
            load_modernbert_classifier,
            {"head.dense.weight": LAYER, "head.norm.weight": (WIDTH,)},
            "",
        ),
    ],
    ids=["distilbert", "causal", "modernbert"],
)
@pytest.mark.parametrize("labels", [2, 3])
def test_more_than_one_label_is_refused_by_number(
    load: LoadHead, tensors: Any, output: str, labels: int, tmp_path: Path
) -> None:
    output = output or "classifier"
    shapes = {**tensors, f"{output}.weight": (labels, WIDTH), f"{output}.bias": (labels,)}
    source = backbone(tmp_path, random_tensors(**shapes))
    with pytest.raises(CheckpointError, match=f"{output!r} has {labels} labels"):
        load(source)
