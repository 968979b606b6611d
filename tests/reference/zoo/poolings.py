"""BERT with every pooling and chain of modules that the other groups leave out."""

from collections.abc import Mapping

from reference.mutants import Mutant
from reference.sharp_families import FAMILIES, HIDDEN, MAX_TOKENS, Backbone, Parameters
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.modules import (
    IDENTITY,
    TANH,
    dense,
    dense_6,
    layer_norm,
    normalize,
    pooling,
    pooling_6,
    transformer,
    transformer_6,
)

_TRANSFORMER_6 = transformer_6("feature-extraction", "token_embeddings")
_MEAN_POOLED = {"mean pooled": changes.pooling_mutant("mean_tokens")}
_MEAN_POOLED_6 = {
    "mean pooled": Mutant(config={"pooling_mode": "mean"}, file="1_Pooling/config.json")
}


def _bert(parameters: Parameters) -> Backbone:
    return FAMILIES["bert"](parameters, False)


def _before_6(mode: str) -> Checkpoint:
    return Checkpoint(_bert, (transformer(MAX_TOKENS), pooling(mode, HIDDEN)), mutants=_MEAN_POOLED)


def _since_6(mode: str) -> Checkpoint:
    return Checkpoint(_bert, (_TRANSFORMER_6, pooling_6(mode, HIDDEN)), mutants=_MEAN_POOLED_6)


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "bert-max": _before_6("max_tokens"),
    "bert-weighted-mean": _before_6("weightedmean_tokens"),
    "bert-mean-sqrt-length": _before_6("mean_sqrt_len_tokens"),
    "bert-max-6": _since_6("max"),
    "bert-weighted-mean-6": _since_6("weightedmean"),
    "bert-mean-sqrt-length-6": _since_6("mean_sqrt_len_tokens"),
    "bert-mean-without-prompt": Checkpoint(
        _bert,
        (transformer(MAX_TOKENS), pooling("mean_tokens", HIDDEN, include_prompt=False)),
        prompts={"query": "the golden river: ", "document": "a paper: "},
        excludes_prompt="query",
        mutants={
            "prompt pooled": Mutant(config={"include_prompt": True}, file="1_Pooling/config.json")
        },
    ),
    "bert-dense-dense": Checkpoint(
        _bert,
        (
            transformer(MAX_TOKENS),
            pooling("mean_tokens", HIDDEN),
            dense(HIDDEN, 96),
            dense(96, 32, bias=False, activation=IDENTITY),
            normalize,
        ),
        mutants={
            "no bias of the first Dense": Mutant(r"^linear\.bias"),
            "no activation of the first Dense": Mutant(
                config={"activation_function": IDENTITY}, file="2_Dense/config.json"
            ),
            "activation of the last Dense": Mutant(
                config={"activation_function": TANH}, file="3_Dense/config.json"
            ),
        },
    ),
    "bert-norm-dense-6": Checkpoint(
        _bert,
        (
            _TRANSFORMER_6,
            pooling_6("cls", HIDDEN),
            layer_norm(HIDDEN),
            dense_6(HIDDEN, 32, TANH, "sentence_embedding"),
        ),
        mutants=_MEAN_POOLED_6
        | {
            "no bias of the norm": Mutant(r"^norm\.bias"),
            "no bias of the Dense": Mutant(r"^linear\.bias"),
        },
    ),
}
