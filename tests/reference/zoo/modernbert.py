"""ModernBERT: norms before, no biases, GeGLU, layers that see everything and layers of a window.

`modernbert-cls` has the keys of a config.json from before transformers 5 (`global_rope_theta`,
`global_attn_every_n_layers`), `modernbert-mean` those from then on (`rope_parameters`,
`layer_types`). The window is 8 to each side.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference.mutants import Mutant, Mutants
from reference.sharp_families import MAX_TOKENS, Backbone, Parameters, Tensors
from reference.sharp_tokenizers import byte_level
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.modules import normalize, pooling, transformer
from tokenizers import Tokenizer, processors

HIDDEN = 64
HEADS = 4
INTERMEDIATE = 96
LAYERS = 4
WINDOW = 16  # tokens seen in all, besides oneself

_BEFORE_5 = {
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "position_embedding_type": "absolute",
}
_SINCE_5 = {
    "layer_types": [
        "full_attention",
        "sliding_attention",
        "sliding_attention",
        "full_attention",
    ],
    "rope_parameters": {
        "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}


def _tokenizer() -> Tokenizer:
    """`[CLS] a [SEP]`, and `[CLS] a [SEP] b [SEP]`."""
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer = byte_level(first=[], last=specials)
    cls_id, sep_id = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls_id), ("[SEP]", sep_id)],
    )
    return tokenizer


def _backbone(
    parameters: Parameters, architecture: str, entries: Mapping[str, Any], prefix: str = ""
) -> Backbone:
    tokenizer = _tokenizer()
    ids = {name: tokenizer.token_to_id(f"[{name}]") for name in ("CLS", "SEP", "PAD")}
    config = {
        "architectures": [architecture],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": ids["CLS"],
        "classifier_activation": "gelu",
        "classifier_bias": False,
        "classifier_dropout": 0.0,
        "classifier_pooling": "mean",
        "cls_token_id": ids["CLS"],
        "decoder_bias": True,
        "embedding_dropout": 0.0,
        "eos_token_id": ids["SEP"],
        "hidden_activation": "gelu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "local_attention": WINDOW,
        "max_position_embeddings": MAX_TOKENS,
        "mlp_bias": False,
        "mlp_dropout": 0.0,
        "model_type": "modernbert",
        "norm_bias": False,
        "norm_eps": 1e-2,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": ids["PAD"],
        "sep_token_id": ids["SEP"],
        "torch_dtype": "float32",
        "vocab_size": tokenizer.get_vocab_size(),
        **entries,
    }
    tensors = _layers(parameters, config, prefix)
    if architecture.endswith("ForSequenceClassification"):
        tensors |= _head(parameters, config)
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_TOKENS,
        "model_input_names": ["input_ids", "attention_mask"],
        **{f"{name}_token": f"[{name.upper()}]" for name in ("cls", "mask", "pad", "sep", "unk")},
    }
    return Backbone(config, tensors, tokenizer, tokenizer_config)


def _layers(parameters: Parameters, config: Mapping[str, Any], prefix: str) -> Tensors:
    norm_bias, mlp_bias = config["norm_bias"], config["mlp_bias"]
    attention_bias = config["attention_bias"]
    name = f"{prefix}embeddings"
    rows = config["vocab_size"]
    tensors = {f"{name}.tok_embeddings.weight": parameters.matrix(rows, HIDDEN)}
    tensors |= parameters.norm(f"{name}.norm", HIDDEN, norm_bias)
    for layer in range(LAYERS):
        name = f"{prefix}layers.{layer}"
        if layer:  # the first has no norm before its attention
            tensors |= parameters.norm(f"{name}.attn_norm", HIDDEN, norm_bias)
        tensors |= parameters.linear(f"{name}.attn.Wqkv", HIDDEN, 3 * HIDDEN, attention_bias)
        tensors |= parameters.linear(f"{name}.attn.Wo", HIDDEN, HIDDEN, attention_bias)
        tensors |= parameters.norm(f"{name}.mlp_norm", HIDDEN, norm_bias)
        tensors |= parameters.linear(f"{name}.mlp.Wi", HIDDEN, 2 * INTERMEDIATE, mlp_bias)
        tensors |= parameters.linear(f"{name}.mlp.Wo", INTERMEDIATE, HIDDEN, mlp_bias)
    return tensors | parameters.norm(f"{prefix}final_norm", HIDDEN, norm_bias)


def _head(parameters: Parameters, config: dict[str, Any]) -> Tensors:
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    tensors = parameters.linear("head.dense", HIDDEN, HIDDEN, config["classifier_bias"])
    tensors |= parameters.norm("head.norm", HIDDEN, config["norm_bias"])
    return tensors | parameters.linear("classifier", HIDDEN, 1)


def _embeds(entries: Mapping[str, Any]) -> Callable[[Parameters], Backbone]:
    return lambda parameters: _backbone(parameters, "ModernBertModel", entries)


def _scores(entries: Mapping[str, Any]) -> Callable[[Parameters], Backbone]:
    architecture = "ModernBertForSequenceClassification"
    return lambda parameters: _backbone(parameters, architecture, entries, "model.")


def _interleave_queries_and_keys(packed: NDArray[np.float32]) -> NDArray[np.float32]:
    change = changes.interleave(HIDDEN // HEADS)
    queries, keys, values = np.split(packed, 3)
    return np.concatenate([change(queries), change(keys), values])


# Positions count from anywhere: a rotation knows distances alone.
_LAYERS: Mutants = {
    "attention scale halved": Mutant(r"Wqkv\.weight", changes.part(0, 3, changes.halve)),
    "heads of another width": Mutant(config={"num_attention_heads": 2}),
    "heads of values swapped": Mutant(r"Wqkv\.weight", changes.part(2, 3, changes.swap_halves)),
    "queries and values swapped": Mutant(
        r"Wqkv\.weight", lambda w: np.concatenate(np.split(w, 3)[::-1])
    ),
    "rotation of neighbours": Mutant(r"Wqkv\.weight", _interleave_queries_and_keys),
    "window wider by one": Mutant(config={"local_attention": WINDOW + 2}),
    "window narrower by one": Mutant(config={"local_attention": WINDOW - 2}),
    "gate and value swapped": Mutant(r"mlp\.Wi\.weight", changes.swap_halves),
    "GELU by tanh": Mutant(config={"hidden_activation": "gelu_pytorch_tanh"}),
    "another epsilon": Mutant(config={"norm_eps": 1e-5}),
    "no weight of the embeddings' norm": Mutant(r"embeddings\.norm\.weight", np.ones_like),
    "no weight of the norm before attention": Mutant(r"attn_norm\.weight", np.ones_like),
    "no weight of the norm before the MLP": Mutant(r"mlp_norm\.weight", np.ones_like),
    "no weight of the last norm": Mutant(r"final_norm\.weight", np.ones_like),
}
_LAYERS_BEFORE_5: Mutants = _LAYERS | {
    "θ of the windows everywhere": Mutant(config={"global_rope_theta": 10000.0}),
    "θ of the global layers everywhere": Mutant(config={"local_rope_theta": 160000.0}),
    "windows everywhere": Mutant(config={"global_attn_every_n_layers": LAYERS}),
    "windows nowhere": Mutant(config={"global_attn_every_n_layers": 1}),
    "windows on the second of every two": Mutant(config={"global_attn_every_n_layers": 2}),
}
_LAYERS_SINCE_5: Mutants = _LAYERS | {
    "θ swapped": Mutant(
        config={
            "rope_parameters": {
                "full_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 160000.0, "rope_type": "default"},
            }
        }
    ),
    "windows nowhere": Mutant(config={"layer_types": ["full_attention"] * LAYERS}),
    "windows on the wrong layers": Mutant(
        config={"layer_types": ["full_attention", "sliding_attention"] * (LAYERS // 2)}
    ),
}
_HEAD: Mutants = {
    "another activation of the head": Mutant(config={"classifier_activation": "silu"}),
    "no weight of the head's norm": Mutant(r"head\.norm\.weight", np.ones_like),
    "no bias of the classifier": Mutant(r"classifier\.bias"),
}
_BIASES: Mutants = {
    "no bias of queries": Mutant(r"Wqkv\.bias", changes.part(0, 3, np.zeros_like)),
    "no bias of values": Mutant(r"Wqkv\.bias", changes.part(2, 3, np.zeros_like)),
    "no bias after attention": Mutant(r"attn\.Wo\.bias"),
    "no bias before the activation": Mutant(r"mlp\.Wi\.bias"),
    "no bias after the activation": Mutant(r"mlp\.Wo\.bias"),
    "no bias of the embeddings' norm": Mutant(r"embeddings\.norm\.bias"),
    "no bias of the norm before attention": Mutant(r"attn_norm\.bias"),
    "no bias of the norm before the MLP": Mutant(r"mlp_norm\.bias"),
    "no bias of the last norm": Mutant(r"final_norm\.bias"),
    "no bias of the head's layer": Mutant(r"head\.dense\.bias"),
    "no bias of the head's norm": Mutant(r"head\.norm\.bias"),
}
_ALL_BIASES = dict.fromkeys(("attention_bias", "classifier_bias", "mlp_bias", "norm_bias"), True)

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "modernbert-cls": Checkpoint(
        _embeds(_BEFORE_5),
        (transformer(MAX_TOKENS), pooling("cls_token", HIDDEN)),
        mutants=_LAYERS_BEFORE_5 | {"mean pooled": changes.pooling_mutant("mean_tokens")},
    ),
    "modernbert-mean": Checkpoint(
        _embeds(_SINCE_5),
        (transformer(MAX_TOKENS), pooling("mean_tokens", HIDDEN), normalize),
        mutants=_LAYERS_SINCE_5 | {"first token pooled": changes.pooling_mutant("cls_token")},
        prompts={"query": "search_query: ", "document": "search_document: "},
    ),
    "modernbert-scores-mean": Checkpoint(
        _scores(_BEFORE_5),
        answer="scores",
        mutants=_LAYERS_BEFORE_5
        | _HEAD
        | {"first token pooled": Mutant(config={"classifier_pooling": "cls"})},
    ),
    # No such model is published; the keys exist.
    "modernbert-scores-cls": Checkpoint(
        _scores(_SINCE_5 | _ALL_BIASES | {"classifier_pooling": "cls"}),
        answer="scores",
        mutants=_LAYERS_SINCE_5
        | _HEAD
        | _BIASES
        | {"mean pooled": Mutant(config={"classifier_pooling": "mean"})},
    ),
}
