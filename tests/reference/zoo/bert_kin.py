"""DistilBERT, CamemBERT, and BERT under the names of its first files.

`bert-legacy` has the prefix `bert.` below a class without heads, norms of `gamma` and `beta`, and
heads of pretraining that nothing uses, as checkpoints from before 2020 do.
"""

import re
from collections.abc import Callable, Mapping

import numpy as np
from reference import mutants as bert_mutants
from reference import sharp_tokenizers
from reference.mutants import Mutant, Mutants
from reference.sharp_families import (
    BERT_SPECIALS,
    FAMILIES,
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    MAX_TOKENS,
    ONE_LABEL,
    Backbone,
    Parameters,
    Tensors,
)
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.modules import Module, normalize, pooling, transformer

LAYERS = 2


def _distilbert(scores: bool) -> Callable[[Parameters], Backbone]:
    def backbone(parameters: Parameters) -> Backbone:
        tokenizer = sharp_tokenizers.bert()
        config = {
            "activation": "gelu",
            "architectures": [
                "DistilBertForSequenceClassification" if scores else "DistilBertModel"
            ],
            "attention_dropout": 0.1,
            "dim": HIDDEN,
            "dropout": 0.1,
            "hidden_dim": INTERMEDIATE,
            "initializer_range": 0.02,
            "max_position_embeddings": MAX_TOKENS,
            "model_type": "distilbert",
            "n_heads": HEADS,
            "n_layers": LAYERS,
            "pad_token_id": 0,
            "qa_dropout": 0.1,
            "seq_classif_dropout": 0.2,
            "sinusoidal_pos_embds": False,
            "tie_weights_": True,
            "torch_dtype": "float32",
            "vocab_size": tokenizer.get_vocab_size(),
        }
        prefix = "distilbert." if scores else ""
        tensors = _distilbert_layers(parameters, tokenizer.get_vocab_size(), prefix)
        if scores:
            config |= ONE_LABEL
            tensors |= parameters.linear("pre_classifier", HIDDEN, HIDDEN)
            tensors |= parameters.linear("classifier", HIDDEN, 1)
        tokenizer_config = {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": True}
        return Backbone(config, tensors, tokenizer, tokenizer_config | BERT_SPECIALS)

    return backbone


def _distilbert_layers(parameters: Parameters, rows: int, prefix: str) -> Tensors:
    name = f"{prefix}embeddings"
    tensors = {
        f"{name}.word_embeddings.weight": parameters.matrix(rows, HIDDEN),
        f"{name}.position_embeddings.weight": parameters.matrix(MAX_TOKENS, HIDDEN),
    }
    tensors |= parameters.norm(f"{name}.LayerNorm", HIDDEN)
    for layer in range(LAYERS):
        name = f"{prefix}transformer.layer.{layer}"
        for part in ("q_lin", "k_lin", "v_lin", "out_lin"):
            tensors |= parameters.linear(f"{name}.attention.{part}", HIDDEN, HIDDEN)
        tensors |= parameters.norm(f"{name}.sa_layer_norm", HIDDEN)
        tensors |= parameters.linear(f"{name}.ffn.lin1", HIDDEN, INTERMEDIATE)
        tensors |= parameters.linear(f"{name}.ffn.lin2", INTERMEDIATE, HIDDEN)
        tensors |= parameters.norm(f"{name}.output_layer_norm", HIDDEN)
    return tensors


def _legacy(parameters: Parameters) -> Backbone:
    backbone = FAMILIES["bert"](parameters, False)
    backbone.config["architectures"] = ["BertForPreTraining"]
    tensors = {f"bert.{_old(name)}": tensor for name, tensor in backbone.tensors.items()}
    rows = backbone.config["vocab_size"]
    tensors |= parameters.linear("cls.predictions.transform.dense", HIDDEN, HIDDEN)
    norm = parameters.norm("cls.predictions.transform.LayerNorm", HIDDEN)
    tensors |= {_old(name): tensor for name, tensor in norm.items()}
    tensors |= {"cls.predictions.bias": parameters.vector(rows)}
    tensors |= parameters.linear("cls.seq_relationship", HIDDEN, 2)
    return Backbone(backbone.config, tensors, backbone.tokenizer, backbone.tokenizer_config)


def _old(name: str) -> str:
    name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
    return re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)


def _camembert(scores: bool) -> Callable[[Parameters], Backbone]:
    return lambda parameters: FAMILIES["camembert"](parameters, scores)


def _pooled(mode: str) -> tuple[Module, ...]:
    return (transformer(MAX_TOKENS), pooling(mode, HIDDEN))


_DISTILBERT: Mutants = {
    "attention scale halved": Mutant(r"q_lin\.", changes.halve),
    "heads of another width": Mutant(config={"n_heads": 2}),
    "heads of values swapped": Mutant(r"v_lin\.", changes.swap_halves),
    "no bias of queries": Mutant(r"q_lin\.bias"),
    "no bias of values": Mutant(r"v_lin\.bias"),
    "no bias after attention": Mutant(r"out_lin\.bias"),
    "no bias before the activation": Mutant(r"lin1\.bias"),
    "no bias after the activation": Mutant(r"lin2\.bias"),
    "no bias of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.bias"),
    "no weight of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.weight", np.ones_like),
    "no bias of the norm after attention": Mutant(r"sa_layer_norm\.bias"),
    "no bias of the norm after the MLP": Mutant(r"output_layer_norm\.bias"),
    "no positions": Mutant(r"position_embeddings"),
    "positions shifted by one": Mutant(r"position_embeddings", changes.shift_rows(1)),
    "ReLU in place of GELU": Mutant(config={"activation": "relu"}),
}
_LEGACY: Mutants = changes.without(
    bert_mutants.ENCODER,
    "no bias of the embeddings' norm",
    "no weight of the embeddings' norm",
    "no bias of the norm after attention",
    "no bias of the norm after the MLP",
) | {
    "no beta of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.beta"),
    "no gamma of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.gamma", np.ones_like),
    "no beta of the norm after attention": Mutant(r"attention\.output\.LayerNorm\.beta"),
    "no beta of the norm after the MLP": Mutant(r"\d\.output\.LayerNorm\.beta"),
}
_MEAN_POOLED = {"mean pooled": changes.pooling_mutant("mean_tokens")}
_FIRST_POOLED = {"first token pooled": changes.pooling_mutant("cls_token")}

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "distilbert-mean": Checkpoint(
        _distilbert(scores=False), _pooled("mean_tokens"), mutants=_DISTILBERT | _FIRST_POOLED
    ),
    "distilbert-scores": Checkpoint(
        _distilbert(scores=True),
        answer="scores",
        mutants=_DISTILBERT
        | {
            "GELU by tanh": Mutant(config={"activation": "gelu_new"}),
            "no bias of the head's first layer": Mutant(r"pre_classifier\.bias"),
            "no bias of the head's last layer": Mutant(r"^classifier\.bias"),
        },
    ),
    "camembert-mean": Checkpoint(
        _camembert(scores=False),
        (*_pooled("mean_tokens"), normalize),
        mutants=changes.without(bert_mutants.ROBERTA, "GELU by tanh") | _FIRST_POOLED,
    ),
    "camembert-scores": Checkpoint(
        _camembert(scores=True), answer="scores", mutants=bert_mutants.ROBERTA_SCORES
    ),
    "bert-legacy-cls": Checkpoint(_legacy, _pooled("cls_token"), mutants=_LEGACY | _MEAN_POOLED),
}
