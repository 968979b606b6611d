"""Alibaba's GTE, first published as "new": BERT with rotated positions, a gated MLP, and biases.

transformers has it as `gte` (arXiv:2407.19669).
"""

import torch

from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import Names, NormNames
from engine.families.rope import read_rope
from engine.families.rotary_bert import NATIVE_NAMES
from engine.families.shape import Biases, Layer, Shape, head_dim_of
from engine.heads.scores import classifier
from engine.settings import Config, integer, refuse, required

_PUBLISHED_NAMES = Names(
    words="embeddings.word_embeddings",
    types="embeddings.token_type_embeddings",
    embedding_norm="embeddings.LayerNorm",
    layer="encoder.layer.{}",
    qkv=("attention.qkv_proj",),
    attention_output="attention.o_proj",
    attention_norms=NormNames(sum="attn_ln"),
    mlp_in=("mlp.up_gate_proj",),
    up_first=True,
    mlp_out="mlp.down_proj",
    mlp_norms=NormNames(sum="mlp_ln"),
)


def _read_shape(config: Config) -> Shape:
    refuse(config, "position_embedding_type", "rope")
    if "rope_parameters" not in config:
        required(config, "rope_theta")  # the two styles have different defaults
    refuse(config, "layer_norm_type", "layer_norm")
    refuse(config, "pack_qkv", True)
    refuse(config, "logn_attention_scale", False)
    refuse(config, "logn_attention_clip1", False)
    width, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    rope = read_rope(config, default_theta=160_000.0)  # transformers'
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings"),
        types=integer(config, "type_vocab_size", 1),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim_of(width, heads),
        mlp_width=integer(config, "intermediate_size"),
        hidden_act=required(config, "hidden_act"),
        gated=True,
        eps=required(config, "layer_norm_eps"),
        layers=(Layer(rope=rope),) * integer(config, "num_hidden_layers"),
        biases=Biases(qkv=True, attention_output=True, mlp_out=True, norm=True),
    )


NEW = Family(
    prefixes=("new.", "gte."),
    load_encoder=encoder_loader(_read_shape, _PUBLISHED_NAMES, NATIVE_NAMES),
    load_score_head=classifier("pooler.dense", torch.tanh, "classifier"),
    unused=("pooler.", "classifier.", "lm_head."),
)
