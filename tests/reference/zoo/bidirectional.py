"""Decoders that see both ways: pplx-embed, NVIDIA's Llama, and gte-Qwen2.

transformers has none of their classes; it runs their base classes with `is_causal: false`, which
makes the mask full. What each changes besides is written here: pplx-embed ends in a quantizer of
its own, Llama's rotation is scaled by top-level `rope_scaling`, and gte-Qwen2's tokenizer.json does
not append the end token that its tokenizer_config.json asks for (`add_eos_token`).
"""

from collections.abc import Mapping
from typing import Any

from reference.mutants import Mutant, Mutants
from reference.sharp_families import MAX_TOKENS, Backbone, Parameters
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint, Config
from reference.zoo.llama import (
    HIDDEN,
    LAST,
    LLAMA,
    LLAMA3_SCALING,
    QWEN2,
    QWEN3,
    QWEN_BEFORE_5,
)
from reference.zoo.llama_mutants import BEFORE_5, BIASES, BLOCK, NO_QK_NORM, QK_NORM
from reference.zoo.llama_mutants import LAST as LAST_POOLED
from reference.zoo.modules import Module, Written, pooling, transformer

_PPLX_ENTRIES = QWEN_BEFORE_5 | {
    "auto_map": {
        "AutoConfig": "configuration.PPLXQwen3Config",
        "AutoModel": "modeling.PPLXQwen3Model",
    },
    "model_type": "bidirectional_pplx_qwen3",
    "use_bidirectional_attention": True,
    "use_cache": False,
}
_LLAMA_ENTRIES = {
    "auto_map": {
        "AutoConfig": "llama_bidirectional_model.LlamaBidirectionalConfig",
        "AutoModel": "llama_bidirectional_model.LlamaBidirectionalModel",
    },
    "model_type": "llama_bidirec",
    "pooling": "avg",
    "rope_scaling": LLAMA3_SCALING,
    "rope_theta": 500000.0,
    "temperature": 0.02,
    "use_cache": False,
}
_GTE_ENTRIES = QWEN_BEFORE_5 | {
    "auto_map": {
        "AutoModel": "modeling_qwen.Qwen2Model",
        "AutoModelForCausalLM": "modeling_qwen.Qwen2ForCausalLM",
    },
    "is_causal": False,
}


def _pplx(parameters: Parameters) -> Backbone:
    return QWEN3.backbone(parameters, "PPLXQwen3Model", _PPLX_ENTRIES)


def _llama(parameters: Parameters) -> Backbone:
    frame = "<|begin_of_text|> $A"
    return LLAMA.backbone(parameters, "LlamaBidirectionalModel", _LLAMA_ENTRIES, frame=frame)


def _gte_qwen2(parameters: Parameters) -> Backbone:
    backbone = QWEN2.backbone(parameters, "Qwen2ForCausalLM", _GTE_ENTRIES)
    backbone.tokenizer_config["add_eos_token"] = True
    return backbone


def _runs_as(architecture: str, model_type: str) -> Mapping[str, Any]:
    return {"architectures": [architecture], "model_type": model_type}


def _pplx_in_transformers(config: Config) -> Config:
    sees_all = config["use_bidirectional_attention"]
    return config | _runs_as("Qwen3Model", "qwen3") | {"is_causal": not sees_all}


def _llama_in_transformers(config: Config) -> Config:
    sees_all = config["model_type"] == "llama_bidirec"
    return config | _runs_as("LlamaModel", "llama") | {"is_causal": not sees_all}


def quantizer(_: Parameters) -> Written:
    """pplx-embed's: its code is in the repository, beside modules.json."""
    return Written("st_quantize.FlexibleQuantizer", keywords=("quantization",), folder="")


_MEAN: tuple[Module, ...] = (transformer(MAX_TOKENS), pooling("mean_tokens", HIDDEN))
_MEAN_POOLED: Mutants = {
    "first token pooled": changes.pooling_mutant("cls_token"),
    "last token pooled": changes.pooling_mutant("lasttoken"),
}
_CAUSAL_PPLX = {**_runs_as("Qwen3Model", "qwen3"), "use_bidirectional_attention": False}

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "pplx-mean": Checkpoint(
        _pplx,
        (*_MEAN, quantizer),
        mutants=BLOCK | QK_NORM | BEFORE_5 | _MEAN_POOLED | {"causal": Mutant(config=_CAUSAL_PPLX)},
        in_transformers=_pplx_in_transformers,
    ),
    "llama-bidirectional-mean": Checkpoint(
        _llama,
        _MEAN,
        mutants=BLOCK
        | NO_QK_NORM
        | BEFORE_5
        | _MEAN_POOLED
        | {
            "causal": Mutant(config=_runs_as("LlamaModel", "llama")),
            "rotation not scaled": Mutant(config={"rope_scaling": None}),
        },
        in_transformers=_llama_in_transformers,
    ),
    "gte-qwen2-last": Checkpoint(
        _gte_qwen2,
        LAST,
        mutants=BLOCK
        | BIASES
        | BEFORE_5
        | LAST_POOLED
        | {"causal": Mutant(config={"is_causal": True})},
        ends_texts_with="<|endoftext|>",
    ),
}
