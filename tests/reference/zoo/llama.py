"""The Llama block, causal: Qwen3, Qwen2, Mistral and Llama, as embedders and cross-encoders.

Files differ as those of the published models do: `qwen3-last` has the names of its tensors without
`model.` though its class is a causal LM's (Qwen3-Embedding), and `rope_theta` at the top of its
config.json as before transformers 5; `qwen3-scores` and `llama-last` have `rope_parameters`. Widths
of heads are stated (`head_dim`), and heads × width is not the hidden size; Mistral sees a window of
12 tokens, itself included; Llama's rotation is scaled as from 3.1 on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reference.sharp_families import MAX_TOKENS, Backbone, Parameters, Tensors
from reference.sharp_tokenizers import byte_level
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.llama_mutants import (
    BEFORE_5,
    BIASES,
    BLOCK,
    CAUSAL,
    NO_QK_NORM,
    QK_NORM,
    SINCE_5,
    mistral,
    scaled,
)
from reference.zoo.llama_mutants import LAST as LAST_POOLED
from reference.zoo.modules import normalize, pooling, transformer
from tokenizers import Tokenizer, processors

HIDDEN = 48
HEADS = 4
KEY_VALUE_HEADS = 2
HEAD_DIM = 16
INTERMEDIATE = 96
LAYERS = 3
WINDOW = 12  # Mistral's

# The original length is short, so that all three ranges of frequencies are in use.
LLAMA3_SCALING = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 32,
    "rope_type": "llama3",
}

_BARE_WORDS = ("yes", "no", "system", "user", "assistant")


@dataclass(frozen=True)
class Kind:
    """What tells the members of the family apart."""

    name: str  # of the classes
    model_type: str
    special_tokens: tuple[str, ...]
    begin: str  # one of these
    end: str
    head_dim: int = HEAD_DIM
    biases: bool = False  # of queries, keys and values
    qk_norm: bool = False

    def tokenizer(self, frame: str = "$A") -> Tokenizer:
        """`frame`: what is around a text ($A)."""
        tokenizer = byte_level([], list(self.special_tokens), _BARE_WORDS)
        around = [token for token in frame.split() if token != "$A"]
        if around:
            second = " ".join(f"{token}:1" for token in frame.replace("$A", "$B").split())
            tokenizer.post_processor = processors.TemplateProcessing(
                single=frame,
                pair=f"{frame} {second}",
                special_tokens=[(token, tokenizer.token_to_id(token)) for token in around],
            )
        return tokenizer

    def backbone(
        self,
        parameters: Parameters,
        architecture: str,
        entries: Mapping[str, Any],
        prefix: str = "",
        frame: str = "$A",
    ) -> Backbone:
        tokenizer = self.tokenizer(frame)
        config = {
            "architectures": [architecture],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": tokenizer.token_to_id(self.begin),
            "eos_token_id": tokenizer.token_to_id(self.end),
            "hidden_act": "silu",
            "hidden_size": HIDDEN,
            "initializer_range": 0.02,
            "intermediate_size": INTERMEDIATE,
            "max_position_embeddings": MAX_TOKENS,
            "model_type": self.model_type,
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "num_key_value_heads": KEY_VALUE_HEADS,
            "pad_token_id": tokenizer.token_to_id(self.end),
            "rms_norm_eps": 1e-2,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
            "use_cache": True,
            "vocab_size": tokenizer.get_vocab_size(),
            **({"head_dim": self.head_dim} if self.head_dim != HIDDEN // HEADS else {}),
            **entries,
        }
        tensors = self._layers(parameters, config["vocab_size"], prefix)
        if architecture.endswith("ForSequenceClassification"):
            config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
            tensors |= parameters.linear("score", HIDDEN, 1, bias=False)
        tokenizer_config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_TOKENS,
            "bos_token": self.begin,
            "eos_token": self.end,
            "pad_token": self.end,
        }
        return Backbone(config, tensors, tokenizer, tokenizer_config)

    def _layers(self, parameters: Parameters, rows: int, prefix: str) -> Tensors:
        widths = {"q": HEADS, "k": KEY_VALUE_HEADS, "v": KEY_VALUE_HEADS}
        tensors = {f"{prefix}embed_tokens.weight": parameters.matrix(rows, HIDDEN)}
        for layer in range(LAYERS):
            name = f"{prefix}layers.{layer}"
            tensors |= parameters.norm(f"{name}.input_layernorm", HIDDEN, bias=False)
            for part, heads in widths.items():
                width = heads * self.head_dim
                tensors |= parameters.linear(
                    f"{name}.self_attn.{part}_proj", HIDDEN, width, self.biases
                )
            for part in ("q", "k") if self.qk_norm else ():
                tensors |= parameters.norm(
                    f"{name}.self_attn.{part}_norm", self.head_dim, bias=False
                )
            width = HEADS * self.head_dim
            tensors |= parameters.linear(f"{name}.self_attn.o_proj", width, HIDDEN, bias=False)
            tensors |= parameters.norm(f"{name}.post_attention_layernorm", HIDDEN, bias=False)
            for part in ("gate", "up"):
                tensors |= parameters.linear(
                    f"{name}.mlp.{part}_proj", HIDDEN, INTERMEDIATE, bias=False
                )
            tensors |= parameters.linear(f"{name}.mlp.down_proj", INTERMEDIATE, HIDDEN, bias=False)
        return tensors | parameters.norm(f"{prefix}norm", HIDDEN, bias=False)


_QWEN_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
_QWEN = {"special_tokens": _QWEN_TOKENS, "begin": "<|endoftext|>", "end": "<|endoftext|>"}
_LLAMA_TOKENS = ("<|begin_of_text|>", "<|end_of_text|>")

QWEN3 = Kind("Qwen3", "qwen3", **_QWEN, qk_norm=True)
QWEN2 = Kind("Qwen2", "qwen2", **_QWEN, head_dim=HIDDEN // HEADS, biases=True)
MISTRAL = Kind("Mistral", "mistral", ("<unk>", "<s>", "</s>"), begin="<s>", end="</s>")
LLAMA = Kind("Llama", "llama", _LLAMA_TOKENS, begin=_LLAMA_TOKENS[0], end=_LLAMA_TOKENS[1])

QWEN_BEFORE_5 = {
    "max_window_layers": LAYERS,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "use_sliding_window": False,
}
QWEN_SINCE_5 = {
    "layer_types": ["full_attention"] * LAYERS,
    "max_window_layers": LAYERS,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "sliding_window": None,
    "use_sliding_window": False,
}
MISTRAL_BEFORE_5 = {"rope_theta": 10000.0, "sliding_window": WINDOW}
LLAMA_SINCE_5 = {"rope_parameters": {**LLAMA3_SCALING, "rope_theta": 500000.0}}

LAST = (transformer(MAX_TOKENS), pooling("lasttoken", HIDDEN), normalize)
QUERY_PROMPT = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)


def body(
    kind: Kind,
    suffix: str,
    entries: Mapping[str, Any],
    prefix: str = "",
    frame: str = "$A",
) -> Callable[[Parameters], Backbone]:
    """`suffix` ends the name of the class: Model, ForCausalLM, ForSequenceClassification."""
    return lambda parameters: kind.backbone(parameters, kind.name + suffix, entries, prefix, frame)


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "qwen3-last": Checkpoint(
        body(QWEN3, "ForCausalLM", QWEN_BEFORE_5, frame="$A <|endoftext|>"),
        LAST,
        mutants=BLOCK | QK_NORM | CAUSAL | BEFORE_5 | LAST_POOLED,
        prompts={"query": QUERY_PROMPT, "document": ""},
    ),
    "qwen3-scores": Checkpoint(
        body(QWEN3, "ForSequenceClassification", QWEN_SINCE_5, prefix="model."),
        answer="scores",
        mutants=BLOCK | QK_NORM | CAUSAL | SINCE_5,
        shards=2,
    ),
    "qwen2-last": Checkpoint(
        body(QWEN2, "Model", QWEN_SINCE_5, frame="$A <|endoftext|>"),
        LAST,
        mutants=BLOCK | BIASES | CAUSAL | SINCE_5 | LAST_POOLED,
    ),
    "qwen2-scores": Checkpoint(
        body(QWEN2, "ForSequenceClassification", QWEN_BEFORE_5, prefix="model."),
        answer="scores",
        mutants=BLOCK | BIASES | CAUSAL | BEFORE_5,
    ),
    "mistral-last": Checkpoint(
        body(MISTRAL, "Model", MISTRAL_BEFORE_5, frame="<s> $A </s>"),
        LAST,
        mutants=BLOCK | NO_QK_NORM | CAUSAL | mistral(WINDOW) | LAST_POOLED,
    ),
    "llama-last": Checkpoint(
        body(LLAMA, "Model", LLAMA_SINCE_5, frame="<|begin_of_text|> $A <|end_of_text|>"),
        LAST[:2],
        mutants=BLOCK | NO_QK_NORM | CAUSAL | scaled(LLAMA3_SCALING, 500000.0) | LAST_POOLED,
    ),
}
