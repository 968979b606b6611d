"""ModernBERT: pre-norm, no biases, GeGLU; few layers see everything, the others a window.

arXiv:2412.13663.
"""

from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import Names, NormNames
from engine.families.rope import read_rope
from engine.families.shape import Biases, Layer, Shape, head_dim_of, layer_types_of
from engine.heads.masked_lm import MODERNBERT_LM
from engine.heads.scores import load_modernbert_classifier
from engine.settings import Config, integer, refuse

_NAMES = Names(
    words="embeddings.tok_embeddings",
    embedding_norm="embeddings.norm",
    layer="layers.{}",
    qkv=("attn.Wqkv",),
    attention_output="attn.Wo",
    attention_norms=NormNames(before="attn_norm"),
    mlp_in=("mlp.Wi",),
    mlp_out="mlp.Wo",
    mlp_norms=NormNames(before="mlp_norm"),
    final_norm="final_norm",
)


def _read_shape(config: Config) -> Shape:
    width, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    attention_bias = bool(config.get("attention_bias"))
    mlp_bias = bool(config.get("mlp_bias"))
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings"),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim_of(width, heads),
        mlp_width=integer(config, "intermediate_size"),
        hidden_act=config.get("hidden_activation", "gelu"),
        gated=True,
        eps=config.get("norm_eps", 1e-5),
        layers=_read_layers(config),
        norms_first_attention=False,  # the embeddings are normed already
        biases=Biases(
            qkv=attention_bias,
            attention_output=attention_bias,
            mlp_in=mlp_bias,
            mlp_out=mlp_bias,
            norm=bool(config.get("norm_bias")),
        ),
    )


def _read_layers(config: Config) -> tuple[Layer, ...]:
    refuse(config, "rope_scaling")
    every = integer(config, "global_attn_every_n_layers", 3)
    kinds = {
        "full_attention": Layer(
            rope=read_rope(config, 160_000.0, "full_attention", "global_rope_theta")
        ),
        "sliding_attention": Layer(
            window=integer(config, "local_attention", 128) // 2,
            rope=read_rope(config, 10_000.0, "sliding_attention", "local_rope_theta"),
        ),
    }
    default = [
        "sliding_attention" if index % every else "full_attention"
        for index in range(integer(config, "num_hidden_layers"))
    ]
    return tuple(kinds[kind] for kind in layer_types_of(config, default))


MODERNBERT = Family(
    prefixes=("model.",),
    load_encoder=encoder_loader(_read_shape, _NAMES),
    load_score_head=load_modernbert_classifier,
    mlm_head=MODERNBERT_LM,
    unused_of={"ModernBertForMaskedLM": ("head.", "decoder.")},
)
