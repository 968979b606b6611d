"""Rerankers that are no `*ForSequenceClassification`, or one in sentence-transformers 6's layout.

`qwen3-yes-no` is Qwen3-Reranker: a causal LM whose decoder is its embedding table, asked with the
template of `reranker.py`. `qwen3-logit-score` has a decoder of its own and says in modules.json
which two of its logits are compared.
"""

from collections.abc import Callable, Mapping

from reference.mutants import Mutant, Mutants
from reference.sharp_families import FAMILIES, HIDDEN, Backbone, Parameters
from reference.zoo import llama
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.llama_mutants import BEFORE_5, BLOCK, CAUSAL, QK_NORM, SINCE_5
from reference.zoo.modules import (
    GELU,
    IDENTITY,
    Module,
    Written,
    dense_6,
    pooling_6,
    transformer_6,
)

MAX_TOKENS = 352  # the template alone is about 300


def _bert(scores: bool) -> Callable[[Parameters], Backbone]:
    return lambda parameters: FAMILIES["bert"](parameters, scores)


def _reranker(parameters: Parameters) -> Backbone:
    entries = llama.QWEN_BEFORE_5 | {"max_position_embeddings": MAX_TOKENS}
    return llama.QWEN3.backbone(parameters, "Qwen3ForCausalLM", entries, "model.")


def _untied(parameters: Parameters) -> Backbone:
    entries = llama.QWEN_SINCE_5 | {"tie_word_embeddings": False}
    backbone = llama.QWEN3.backbone(parameters, "Qwen3ForCausalLM", entries, "model.")
    rows = backbone.config["vocab_size"]
    tensors = backbone.tensors | parameters.linear("lm_head", llama.HIDDEN, rows, bias=False)
    return Backbone(backbone.config, tensors, backbone.tokenizer, backbone.tokenizer_config)


def _logit_score() -> Module:
    """Its ids are those of "yes" and "no" in the tokenizer of `llama`."""
    tokenizer = llama.QWEN3.tokenizer()
    config = {
        "true_token_id": tokenizer.token_to_id("yes"),
        "false_token_id": tokenizer.token_to_id("no"),
        "module_input_name": "causal_logits",
    }
    return lambda _: Written(
        "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", config
    )


_SETTINGS = {
    "activation_fn": "torch.nn.modules.activation.Sigmoid",
    "model_type": "CrossEncoder",
}
_SWAPPED = {
    "yes and no swapped": Mutant(
        config={
            "true_token_id": llama.QWEN3.tokenizer().token_to_id("no"),
            "false_token_id": llama.QWEN3.tokenizer().token_to_id("yes"),
        },
        file="1_LogitScore/config.json",
    ),
    "no left out": Mutant(config={"false_token_id": None}, file="1_LogitScore/config.json"),
}
_HEAD: Mutants = {
    "no bias of the pooler": Mutant(r"pooler\.dense\.bias"),
    "no bias of the classifier": Mutant(r"classifier\.bias"),
}
_DENSE: Mutants = {
    "no bias of the Dense": Mutant(r"^linear\.bias"),
    "no activation of the first Dense": Mutant(
        config={"activation_function": IDENTITY}, file="2_Dense/config.json"
    ),
    "mean pooled": Mutant(config={"pooling_mode": "mean"}, file="1_Pooling/config.json"),
}

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "qwen3-yes-no": Checkpoint(
        _reranker,
        answer="yes_no",
        lengths=(*range(1, 65), 200, MAX_TOKENS - 1, MAX_TOKENS),
        max_tokens=MAX_TOKENS,
        mutants=BLOCK | QK_NORM | CAUSAL | BEFORE_5,
    ),
    "qwen3-logit-score": Checkpoint(
        _untied,
        (transformer_6("text-generation", "causal_logits", "logits"), _logit_score()),
        answer="logit_score",
        settings=_SETTINGS,
        mutants=BLOCK | QK_NORM | CAUSAL | SINCE_5 | _SWAPPED,
    ),
    "bert-module-scores": Checkpoint(
        _bert(scores=True),
        (transformer_6("sequence-classification", "scores", "logits"),),
        answer="module_scores",
        settings=_SETTINGS,
        mutants=_HEAD,
    ),
    "bert-pooled-scores": Checkpoint(
        _bert(scores=False),
        (
            transformer_6("feature-extraction", "token_embeddings"),
            pooling_6("cls", HIDDEN),
            dense_6(HIDDEN, HIDDEN, GELU, "sentence_embedding"),
            dense_6(HIDDEN, 1, IDENTITY, "sentence_embedding", "scores"),
        ),
        answer="module_scores",
        settings=_SETTINGS,
        mutants=_DENSE,
    ),
}
