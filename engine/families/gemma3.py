"""Gemma 3 text (arXiv:2503.19786), causal or, as EmbeddingGemma, an encoder."""

from dataclasses import replace

from engine.families import llama
from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import NormNames
from engine.families.rope import read_rope
from engine.families.shape import Layer, Shape, layer_types_of
from engine.settings import Config, integer, refuse, required

_NAMES = replace(
    llama.NAMES,
    attention_norms=NormNames(before="input_layernorm", behind="post_attention_layernorm"),
    mlp_norms=NormNames(before="pre_feedforward_layernorm", behind="post_feedforward_layernorm"),
)


def _read_shape(config: Config) -> Shape:
    refuse(config, "attn_logit_softcapping")
    width, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings"),
        width=width,
        heads=heads,
        kv_heads=integer(config, "num_key_value_heads"),
        head_dim=integer(config, "head_dim"),
        mlp_width=integer(config, "intermediate_size"),
        hidden_act=required(config, "hidden_activation"),
        gated=True,
        norm="rms_plus_one",
        qk_norm=True,
        eps=required(config, "rms_norm_eps"),
        layers=_read_layers(config),
        biases=llama.configured_biases(config),
        scale=required(config, "query_pre_attn_scalar") ** -0.5,
        embedding_scale=width**0.5,
    )


def _read_layers(config: Config) -> tuple[Layer, ...]:
    window, causal = integer(config, "sliding_window"), True
    if config.get("use_bidirectional_attention"):
        # Half of it to each side, the distance window ÷ 2 + 1 being the first that is not seen.
        window, causal = window // 2 + 1, False
    kinds = {
        "full_attention": Layer(causal, rope=read_rope(config, 1_000_000.0, "full_attention")),
        "sliding_attention": Layer(
            causal,
            window - 1,
            read_rope(config, 10_000.0, "sliding_attention", "rope_local_base_freq"),
        ),
    }
    every = integer(config, "_sliding_window_pattern", 6)
    every = integer(config, "sliding_window_pattern", every)
    default = [
        "sliding_attention" if (index + 1) % every else "full_attention"
        for index in range(integer(config, "num_hidden_layers"))
    ]
    return tuple(kinds[kind] for kind in layer_types_of(config, default))


GEMMA3 = Family(
    prefixes=("model.",),
    load_encoder=encoder_loader(_read_shape, _NAMES),
    unused_of={"Gemma3ForCausalLM": ("lm_head.",)},
)
