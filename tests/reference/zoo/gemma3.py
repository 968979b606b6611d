"""Gemma 3 text as an encoder, in EmbeddingGemma's layout: mean, two Dense, Normalize.

Norms stand before and behind each sublayer and multiply by 1 + weight; heads are wider than hidden
size ÷ heads and their scores are scaled by `query_pre_attn_scalar`, not by that width; embeddings
are multiplied by √hidden. Every third layer sees everything; the others see 6 tokens to each side,
for `sliding_window` 12 becomes 12 ÷ 2 + 1, exclusive. `gemma3-mean-dense` has the keys of a
config.json from before transformers 5, `gemma3-last` those from then on.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference.mutants import Mutant, Mutants
from reference.sharp_families import MAX_TOKENS, Backbone, Parameters, Tensors
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.modules import IDENTITY, dense, normalize, pooling, transformer
from reference.zoo.piece_bpe import gemma

HIDDEN = 48
HEADS = 3
KEY_VALUE_HEADS = 1
HEAD_DIM = 32
SCALAR = 24  # of the scores: neither the width of a head nor hidden ÷ heads
INTERMEDIATE = 64
LAYERS = 3
WINDOW = 12

_BEFORE_5 = {
    "_sliding_window_pattern": LAYERS,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "rope_local_base_freq": 10000.0,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
}
_SINCE_5 = {
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}


def _body(entries: Mapping[str, Any]) -> Callable[[Parameters], Backbone]:
    def backbone(parameters: Parameters) -> Backbone:
        tokenizer = gemma()
        config = {
            "architectures": ["Gemma3TextModel"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_logit_softcapping": None,
            "bos_token_id": 2,
            "eos_token_id": 1,
            "final_logit_softcapping": None,
            "head_dim": HEAD_DIM,
            "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": HIDDEN,
            "initializer_range": 0.02,
            "intermediate_size": INTERMEDIATE,
            "max_position_embeddings": MAX_TOKENS,
            "model_type": "gemma3_text",
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "num_key_value_heads": KEY_VALUE_HEADS,
            "pad_token_id": 0,
            "query_pre_attn_scalar": SCALAR,
            "rms_norm_eps": 1e-2,
            "sliding_window": WINDOW,
            "torch_dtype": "float32",
            "use_bidirectional_attention": True,
            "use_cache": True,
            "vocab_size": tokenizer.get_vocab_size(),
            **entries,
        }
        tokenizer_config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_TOKENS,
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
        }
        tensors = _layers(parameters, tokenizer.get_vocab_size())
        return Backbone(config, tensors, tokenizer, tokenizer_config)

    return backbone


def _layers(parameters: Parameters, rows: int) -> Tensors:
    heads = {"q": HEADS, "k": KEY_VALUE_HEADS, "v": KEY_VALUE_HEADS}
    tensors = {"embed_tokens.weight": parameters.matrix(rows, HIDDEN)}
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        for part, number in heads.items():
            tensors |= parameters.linear(
                f"{name}.self_attn.{part}_proj", HIDDEN, number * HEAD_DIM, bias=False
            )
        tensors |= parameters.linear(
            f"{name}.self_attn.o_proj", HEADS * HEAD_DIM, HIDDEN, bias=False
        )
        for part in ("q", "k"):
            # Not around 0: normed queries and keys would leave attention almost uniform.
            tensors[f"{name}.self_attn.{part}_norm.weight"] = 1 + parameters.vector(HEAD_DIM)
        for part in ("gate", "up"):
            tensors |= parameters.linear(
                f"{name}.mlp.{part}_proj", HIDDEN, INTERMEDIATE, bias=False
            )
        tensors |= parameters.linear(f"{name}.mlp.down_proj", INTERMEDIATE, HIDDEN, bias=False)
        for norm in _NORMS:
            tensors[f"{name}.{norm}.weight"] = parameters.vector(HIDDEN)
    return tensors | {"norm.weight": parameters.vector(HIDDEN)}


_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def _less_one(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    return weight - 1


MUTANTS: Mutants = {
    "heads of queries swapped": Mutant(r"q_proj\.", changes.shift_rows(HEAD_DIM)),
    "keys and values swapped": Mutant(swaps=("k_proj", "v_proj")),
    "gate and value swapped": Mutant(swaps=("gate_proj", "up_proj")),
    "GELU by erf": Mutant(config={"hidden_activation": "gelu"}),
    "another epsilon": Mutant(config={"rms_norm_eps": 1e-6}),
    "norms of weight, not 1 + weight": Mutant(r"layernorm\.weight|^norm\.weight", _less_one),
    "norms of heads of weight, not 1 + weight": Mutant(r"[qk]_norm\.", _less_one),
    "no norm weight of the queries' heads": Mutant(r"q_norm\."),
    "no norm weight of the keys' heads": Mutant(r"k_norm\."),
    "scores scaled by the width of a head": Mutant(config={"query_pre_attn_scalar": HEAD_DIM}),
    "scores scaled by hidden ÷ heads": Mutant(config={"query_pre_attn_scalar": HIDDEN // HEADS}),
    "embeddings not scaled": Mutant(r"embed_tokens\.", lambda table: table / HIDDEN**0.5),
    "no norm weight before attention": Mutant(r"input_layernorm"),
    "no norm weight behind attention": Mutant(r"post_attention_layernorm"),
    "no norm weight before the MLP": Mutant(r"pre_feedforward_layernorm"),
    "no norm weight behind the MLP": Mutant(r"post_feedforward_layernorm"),
    "no weight of the last norm": Mutant(r"^norm\."),
    "norms behind and before swapped": Mutant(
        swaps=("post_attention_layernorm", "pre_feedforward_layernorm")
    ),
    "rotation of neighbours": Mutant(
        r"self_attn\.[qk]_(proj|norm)\.", changes.interleave(HEAD_DIM)
    ),
    "window wider by one": Mutant(config={"sliding_window": WINDOW + 2}),
    "window narrower by one": Mutant(config={"sliding_window": WINDOW - 2}),
    "windows nowhere": Mutant(config={"layer_types": ["full_attention"] * LAYERS}),
    "windows on the last layers": Mutant(
        config={"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]}
    ),
    "causal": Mutant(config={"use_bidirectional_attention": False}),
    "first token pooled": changes.pooling_mutant("cls_token"),
}
_THETAS_BEFORE_5: Mutants = {
    "θ of the windows everywhere": Mutant(config={"rope_theta": 10000.0}),
    "θ of the global layers everywhere": Mutant(config={"rope_local_base_freq": 1000000.0}),
}
_THETAS_SINCE_5: Mutants = {
    "θ swapped": Mutant(
        config={
            "rope_parameters": {
                "full_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
            }
        }
    ),
}
_DENSE = (
    dense(HIDDEN, 4 * HIDDEN, bias=False, activation=IDENTITY),
    dense(4 * HIDDEN, HIDDEN, bias=False, activation=IDENTITY),
)

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "gemma3-mean-dense": Checkpoint(
        _body(_BEFORE_5),
        (transformer(MAX_TOKENS), pooling("mean_tokens", HIDDEN), *_DENSE, normalize),
        # Rows of unit length hardly tell the forms of GELU apart: `gemma3-last` does.
        mutants=changes.without(MUTANTS, "GELU by erf")
        | _THETAS_BEFORE_5
        | {
            "first Dense with tanh": Mutant(
                config={"activation_function": "torch.nn.modules.activation.Tanh"},
                file="2_Dense/config.json",
            )
        },
        prompts={
            "query": "task: search result | query: ",
            "document": "title: none | text: ",
        },
    ),
    "gemma3-last": Checkpoint(
        _body(_SINCE_5),
        (transformer(MAX_TOKENS), pooling("lasttoken", HIDDEN)),
        mutants=MUTANTS | _THETAS_SINCE_5 | {"mean pooled": changes.pooling_mutant("mean_tokens")},
    ),
}
