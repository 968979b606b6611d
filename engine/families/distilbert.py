"""DistilBERT: BERT without token types, under names of its own (arXiv:1910.01108)."""

import torch

from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import Names, NormNames
from engine.families.shape import ALL_BIASES, Layer, Shape, head_dim_of
from engine.heads.masked_lm import DISTILBERT_LM
from engine.heads.scores import classifier
from engine.settings import Config, integer, required

_NAMES = Names(
    words="embeddings.word_embeddings",
    positions="embeddings.position_embeddings",
    embedding_norm="embeddings.LayerNorm",
    layer="transformer.layer.{}",
    qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    attention_output="attention.out_lin",
    attention_norms=NormNames(sum="sa_layer_norm"),
    mlp_in=("ffn.lin1",),
    mlp_out="ffn.lin2",
    mlp_norms=NormNames(sum="output_layer_norm"),
)


def _read_shape(config: Config) -> Shape:
    width, heads = integer(config, "dim"), integer(config, "n_heads")
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings"),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim_of(width, heads),
        mlp_width=integer(config, "hidden_dim"),
        hidden_act=required(config, "activation"),
        eps=1e-12,  # no setting
        layers=(Layer(),) * integer(config, "n_layers"),
        biases=ALL_BIASES,
    )


DISTILBERT = Family(
    prefixes=("distilbert.",),
    load_encoder=encoder_loader(_read_shape, _NAMES),
    load_score_head=classifier("pre_classifier", torch.relu, "classifier"),
    mlm_head=DISTILBERT_LM,
    unused_of={
        "DistilBertForMaskedLM": ("vocab_transform.", "vocab_layer_norm.", "vocab_projector.")
    },
)
