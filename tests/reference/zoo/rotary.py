"""Encoders with rotated positions and norms behind: NomicBERT and Alibaba's GTE ("new").

Both come in two styles of config.json with the same names of tensors: that of the published
repositories, whose own code ran them, and that of transformers 5, which has the classes natively.
`nomic-*` and `new-*` are of the first style. `new-*` scale the rotation as their code does for
`"type": "ntk"`: θ × factor, and all frequencies ÷ factor^(2 / width of a head); transformers says
the same with `linear`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference import sharp_tokenizers
from reference.mutants import Mutant, Mutants
from reference.sharp_families import (
    BERT_SPECIALS,
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    MAX_TOKENS,
    ONE_LABEL,
    ROBERTA_SPECIALS,
    Backbone,
    Parameters,
    Tensors,
)
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint, Config
from reference.zoo.modules import Module, layer_norm, normalize, pooling, transformer

LAYERS = 3
HEAD_DIM = HIDDEN // HEADS
EPSILON = 1e-2


def _nomic(entries: Mapping[str, Any]) -> Callable[[Parameters], Backbone]:
    def backbone(parameters: Parameters) -> Backbone:
        tokenizer = sharp_tokenizers.bert()
        config = {
            "architectures": ["NomicBertModel"],
            "model_type": "nomic_bert",
            "torch_dtype": "float32",
            "type_vocab_size": 2,
            "vocab_size": tokenizer.get_vocab_size(),
            **entries,
        }
        tokenizer_config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
        return Backbone(
            config,
            _nomic_layers(parameters, tokenizer.get_vocab_size()),
            tokenizer,
            tokenizer_config | BERT_SPECIALS,
        )

    return backbone


def _nomic_layers(parameters: Parameters, rows: int) -> Tensors:
    tensors = {
        "embeddings.word_embeddings.weight": parameters.matrix(rows, HIDDEN),
        "embeddings.token_type_embeddings.weight": parameters.matrix(2, HIDDEN),
    }
    tensors |= parameters.norm("emb_ln", HIDDEN)
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        tensors |= parameters.linear(f"{name}.attn.Wqkv", HIDDEN, 3 * HIDDEN, bias=False)
        tensors |= parameters.linear(f"{name}.attn.out_proj", HIDDEN, HIDDEN, bias=False)
        tensors |= parameters.norm(f"{name}.norm1", HIDDEN)
        for part in ("fc11", "fc12"):
            tensors |= parameters.linear(f"{name}.mlp.{part}", HIDDEN, INTERMEDIATE, bias=False)
        tensors |= parameters.linear(f"{name}.mlp.fc2", INTERMEDIATE, HIDDEN, bias=False)
        tensors |= parameters.norm(f"{name}.norm2", HIDDEN)
    return tensors


_NOMIC_PUBLISHED = {
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "auto_map": {
        "AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel",
    },
    "causal": False,
    "dense_seq_output": True,
    "initializer_range": 0.02,
    "layer_norm_epsilon": EPSILON,
    "max_trained_positions": MAX_TOKENS,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "n_embd": HIDDEN,
    "n_head": HEADS,
    "n_inner": INTERMEDIATE,
    "n_layer": LAYERS,
    "n_positions": 4 * MAX_TOKENS,
    "pad_vocab_size_multiple": 1,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "use_rms_norm": False,
}
_NOMIC_NATIVE = {
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "layer_norm_eps": EPSILON,
    "max_position_embeddings": MAX_TOKENS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "pad_token_id": 0,
    "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
}


def _nomic_in_transformers(config: Config) -> Config:
    theta = float(config["rotary_emb_base"])
    return {
        **{name: config[name] for name in ("architectures", "model_type", "vocab_size")},
        **_NOMIC_NATIVE,
        "hidden_act": {"swiglu": "silu", "geglu": "gelu"}[config["activation_function"]],
        "layer_norm_eps": config["layer_norm_epsilon"],
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "torch_dtype": "float32",
        "type_vocab_size": config["type_vocab_size"],
    }


def _new(
    architecture: str, entries: Mapping[str, Any], types: int, prefix: str = ""
) -> Callable[[Parameters], Backbone]:
    def backbone(parameters: Parameters) -> Backbone:
        tokenizer = sharp_tokenizers.unigram()
        config = {
            "architectures": [architecture],
            "attention_probs_dropout_prob": 0.0,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": HIDDEN,
            "initializer_range": 0.02,
            "intermediate_size": INTERMEDIATE,
            "layer_norm_eps": EPSILON,
            "max_position_embeddings": MAX_TOKENS,
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "pad_token_id": 1,
            "torch_dtype": "float32",
            "type_vocab_size": types,
            "vocab_size": tokenizer.get_vocab_size(),
            **entries,
        }
        tensors = _new_layers(parameters, config, prefix)
        if architecture.endswith("ForSequenceClassification"):
            config |= ONE_LABEL
            tensors |= parameters.linear(f"{prefix}pooler.dense", HIDDEN, HIDDEN)
        if prefix:  # the embedder's classifier weighs tokens; its model does not use it
            tensors |= parameters.linear("classifier", HIDDEN, 1)
        tokenizer_config = {"tokenizer_class": "XLMRobertaTokenizer"} | ROBERTA_SPECIALS
        return Backbone(config, tensors, tokenizer, tokenizer_config)

    return backbone


def _new_layers(parameters: Parameters, config: Mapping[str, Any], prefix: str) -> Tensors:
    name = f"{prefix}embeddings"
    tensors = {f"{name}.word_embeddings.weight": parameters.matrix(config["vocab_size"], HIDDEN)}
    if types := config["type_vocab_size"]:
        tensors[f"{name}.token_type_embeddings.weight"] = parameters.matrix(types, HIDDEN)
    tensors |= parameters.norm(f"{name}.LayerNorm", HIDDEN)
    for layer in range(LAYERS):
        name = f"{prefix}encoder.layer.{layer}"
        tensors |= parameters.linear(f"{name}.attention.qkv_proj", HIDDEN, 3 * HIDDEN)
        tensors |= parameters.linear(f"{name}.attention.o_proj", HIDDEN, HIDDEN)
        tensors |= parameters.norm(f"{name}.attn_ln", HIDDEN)
        tensors |= parameters.linear(
            f"{name}.mlp.up_gate_proj", HIDDEN, 2 * INTERMEDIATE, bias=False
        )
        tensors |= parameters.linear(f"{name}.mlp.down_proj", INTERMEDIATE, HIDDEN)
        tensors |= parameters.norm(f"{name}.mlp_ln", HIDDEN)
    return tensors


_NEW_PUBLISHED = {
    "auto_map": {
        "AutoConfig": "Alibaba-NLP/new-impl--configuration.NewConfig",
        "AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel",
    },
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "model_type": "new",
    "pack_qkv": True,
    "position_embedding_type": "rope",
    "rope_scaling": {"factor": 8.0, "type": "ntk"},
    "rope_theta": 20000,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
}
_GTE_NATIVE = {
    "model_type": "gte",
    "rope_parameters": {"rope_theta": 160000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
}


def _new_in_transformers(config: Config) -> Config:
    architecture = config["architectures"][0].replace("New", "Gte")
    rotation: dict[str, Any] = {"rope_type": "default", "rope_theta": float(config["rope_theta"])}
    if scaling := config.pop("rope_scaling"):
        factor = scaling["factor"]
        rotation = {
            "rope_type": "linear",
            "rope_theta": config["rope_theta"] * factor,
            "factor": factor ** (2 / HEAD_DIM),
        }
    changed = {"architectures": [architecture], "model_type": "gte", "rope_parameters": rotation}
    return {name: value for name, value in config.items() if name != "rope_theta"} | changed


def _interleave(packed: NDArray[np.float32]) -> NDArray[np.float32]:
    change = changes.interleave(HEAD_DIM)
    queries, keys, values = np.split(packed, 3)
    return np.concatenate([change(queries), change(keys), values])


def _mutants(packed: str) -> Mutants:
    """`packed`: the name of the projection of queries, keys and values."""
    return {
        "attention scale halved": Mutant(packed, changes.part(0, 3, changes.halve)),
        "heads of queries swapped": Mutant(packed, changes.part(0, 3, changes.swap_halves)),
        "heads of values swapped": Mutant(packed, changes.part(2, 3, changes.swap_halves)),
        "queries and values swapped": Mutant(
            packed, lambda w: np.concatenate(np.split(w, 3)[::-1])
        ),
        "rotation of neighbours": Mutant(packed, _interleave),
        "no token types": Mutant(r"token_type_embeddings"),
        "no weight of the embeddings' norm": Mutant(
            r"(emb_ln|embeddings\.LayerNorm)\.weight", np.ones_like
        ),
        "no bias of the embeddings' norm": Mutant(r"(emb_ln|embeddings\.LayerNorm)\.bias"),
        "no bias of the norm after attention": Mutant(r"(norm1|attn_ln)\.bias"),
        "no bias of the norm after the MLP": Mutant(r"(norm2|mlp_ln)\.bias"),
    }


_NOMIC = _mutants(r"Wqkv\.") | {"gate and value swapped": Mutant(swaps=("fc11", "fc12"))}
_NEW = _mutants(r"qkv_proj\.") | {
    "gate and value swapped": Mutant(r"up_gate_proj\.", changes.swap_halves),
    "no bias of queries": Mutant(r"qkv_proj\.bias", changes.part(0, 3, np.zeros_like)),
    "no bias of keys": Mutant(r"qkv_proj\.bias", changes.part(1, 3, np.zeros_like)),
    "no bias of values": Mutant(r"qkv_proj\.bias", changes.part(2, 3, np.zeros_like)),
    "no bias after attention": Mutant(r"o_proj\.bias"),
    "no bias after the activation": Mutant(r"down_proj\.bias"),
    "GELU by tanh": Mutant(config={"hidden_act": "gelu_new"}),
    "another epsilon": Mutant(config={"layer_norm_eps": 1e-5}),
}
_PUBLISHED = {
    "another θ": Mutant(config={"rope_theta": 10000}),
    "rotation not scaled": Mutant(config={"rope_scaling": None}),
    "rotation scaled by 4": Mutant(config={"rope_scaling": {"factor": 4.0, "type": "ntk"}}),
}
_NATIVE = {
    "another θ": Mutant(config={"rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"}})
}
_MEAN_POOLED = {"mean pooled": changes.pooling_mutant("mean_tokens")}
_FIRST_POOLED = {"first token pooled": changes.pooling_mutant("cls_token")}

MEAN: tuple[Module, ...] = (transformer(MAX_TOKENS), pooling("mean_tokens", HIDDEN))
CLS: tuple[Module, ...] = (transformer(MAX_TOKENS), pooling("cls_token", HIDDEN))
PROMPTS = {"query": "search_query: ", "document": "search_document: "}


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "nomic-mean": Checkpoint(
        _nomic(_NOMIC_PUBLISHED),
        (*MEAN, layer_norm(HIDDEN), normalize),
        mutants=_NOMIC
        | _FIRST_POOLED
        | {
            "another θ": Mutant(config={"rotary_emb_base": 10000}),
            "another epsilon": Mutant(config={"layer_norm_epsilon": 1e-5}),
            "GELU in place of SiLU": Mutant(config={"activation_function": "geglu"}),
            "no weight of the norm after pooling": Mutant(r"^norm\.weight", np.ones_like),
            "no bias of the norm after pooling": Mutant(r"^norm\.bias"),
        },
        prompts=PROMPTS,
        in_transformers=_nomic_in_transformers,
    ),
    "nomic-native-cls": Checkpoint(
        _nomic(_NOMIC_NATIVE),
        (*CLS, normalize),
        mutants=_NOMIC
        | _NATIVE
        | _MEAN_POOLED
        | {
            "GELU in place of SiLU": Mutant(config={"hidden_act": "gelu"}),
            "another epsilon": Mutant(config={"layer_norm_eps": 1e-5}),
        },
    ),
    "new-cls": Checkpoint(
        _new("NewModel", _NEW_PUBLISHED, types=1, prefix="new."),
        (*CLS, normalize),
        mutants=_NEW | _PUBLISHED | _MEAN_POOLED,
        in_transformers=_new_in_transformers,
    ),
    "new-untyped-cls": Checkpoint(  # as gte-base-en-v1.5, which has no token types
        _new("NewModel", _NEW_PUBLISHED, types=0),
        CLS,
        mutants=changes.without(_NEW, "no token types") | _PUBLISHED | _MEAN_POOLED,
        in_transformers=_new_in_transformers,
    ),
    "new-scores": Checkpoint(
        _new("NewForSequenceClassification", _NEW_PUBLISHED, types=1, prefix="new."),
        answer="scores",
        mutants=_NEW
        | _PUBLISHED
        | {
            "no bias of the pooler": Mutant(r"pooler\.dense\.bias"),
            "no bias of the classifier": Mutant(r"classifier\.bias"),
        },
        in_transformers=_new_in_transformers,
    ),
    "gte-native-cls": Checkpoint(
        _new("GteModel", _GTE_NATIVE, types=1),
        (*CLS, normalize),
        mutants=_NEW | _NATIVE | _MEAN_POOLED,
    ),
}
