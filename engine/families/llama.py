"""The Llama block (arXiv:2302.13971): Llama, Mistral, Qwen2 and Qwen3, causal or made encoders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from engine.errors import CheckpointError
from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import Names, NormNames
from engine.families.rope import read_rope
from engine.families.shape import Biases, Layer, Shape, head_dim_of, layer_types_of
from engine.heads.scores import load_last_token_classifier
from engine.settings import Config, integer, refuse, required

NAMES = Names(
    words="embed_tokens",
    layer="layers.{}",
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    qk_norms=("self_attn.q_norm", "self_attn.k_norm"),
    attention_output="self_attn.o_proj",
    attention_norms=NormNames(before="input_layernorm"),
    mlp_in=("mlp.gate_proj", "mlp.up_proj"),
    mlp_out="mlp.down_proj",
    mlp_norms=NormNames(before="post_attention_layernorm"),
    final_norm="norm",
)


def configured_biases(config: Config) -> Biases:
    attention, mlp = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
    return Biases(qkv=attention, attention_output=attention, mlp_in=mlp, mlp_out=mlp)


@dataclass(frozen=True)
class _Kind:
    """What a `model_type` implies that config.json does not say."""

    biases: Callable[[Config], Biases] = configured_biases
    qk_norm: bool = False
    head_dim: int | None = None  # where config.json has none; None: width ÷ heads
    windows: Literal["nowhere", "everywhere", "by layer"] = "nowhere"  # if there is one


_QWEN3 = _Kind(qk_norm=True, head_dim=128, windows="by layer")
_KINDS: Mapping[str, _Kind] = {
    "llama": _Kind(),
    "llama_bidirec": _Kind(),
    "mistral": _Kind(biases=lambda _: Biases(), windows="everywhere"),
    "qwen2": _Kind(biases=lambda _: Biases(qkv=True), windows="by layer"),
    "qwen3": _QWEN3,
    "bidirectional_pplx_qwen3": _QWEN3,
}


def _read_shape(config: Config, causal: bool) -> Shape:
    """`causal` is the family's habit; config.json may say otherwise."""
    model_type = required(config, "model_type")
    if model_type not in _KINDS:
        raise CheckpointError(f"model_type {model_type!r} is not known: {', '.join(_KINDS)}")
    kind = _KINDS[model_type]
    for key in ("num_experts", "num_local_experts", "attn_logit_softcapping"):
        refuse(config, key)
    width, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings"),
        width=width,
        heads=heads,
        kv_heads=integer(config, "num_key_value_heads", 0) or heads,
        head_dim=integer(config, "head_dim", 0) or kind.head_dim or head_dim_of(width, heads),
        mlp_width=integer(config, "intermediate_size"),
        hidden_act=required(config, "hidden_act"),
        gated=True,
        norm="rms",
        qk_norm=kind.qk_norm,
        eps=required(config, "rms_norm_eps"),
        layers=_read_layers(config, kind, _is_causal(config, causal)),
        biases=kind.biases(config),
    )


def _is_causal(config: Config, causal: bool) -> bool:
    if config.get("use_bidirectional_attention") is not None:
        causal = not config["use_bidirectional_attention"]
    return bool(config.get("is_causal", causal))


def _read_layers(config: Config, kind: _Kind, causal: bool) -> tuple[Layer, ...]:
    layers, rope = integer(config, "num_hidden_layers"), read_rope(config)
    types = ["full_attention"] * layers
    everywhere, by_layer = kind.windows == "everywhere", kind.windows == "by layer"
    if everywhere or (by_layer and config.get("use_sliding_window")):
        # Absent it is what transformers takes it for; null says that there is none.
        config = {"sliding_window": 4096, **config}
        if config["sliding_window"] is not None:
            first = 0 if everywhere else min(layers, integer(config, "max_window_layers", 28))
            types[first:] = ["sliding_attention"] * (layers - first)
    if by_layer:
        types = list(layer_types_of(config, types))
    if "sliding_attention" not in types:
        return (Layer(causal, rope=rope),) * layers
    kinds = {
        "full_attention": Layer(causal, rope=rope),
        # So many tokens are seen, the token itself included; so many to each side if not causal.
        "sliding_attention": Layer(causal, integer(config, "sliding_window") - causal, rope),
    }
    return tuple(kinds[layer_type] for layer_type in types)


_UNUSED_OF = {
    f"{name}ForCausalLM": ("lm_head.",) for name in ("Llama", "Mistral", "Qwen2", "Qwen3")
}

LLAMA = Family(
    prefixes=("model.",),
    load_encoder=encoder_loader(partial(_read_shape, causal=True), NAMES),
    load_score_head=load_last_token_classifier,
    unused_of=_UNUSED_OF,
)
LLAMA_BIDIRECTIONAL = Family(
    prefixes=("model.",),
    load_encoder=encoder_loader(partial(_read_shape, causal=False), NAMES),
    load_score_head=load_last_token_classifier,
    unused_of=_UNUSED_OF,
)
