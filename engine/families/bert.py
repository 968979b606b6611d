"""BERT: learned absolute positions, token types, post-norm blocks (arXiv:1810.04805)."""

import torch

from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import Names, NormNames
from engine.families.shape import ALL_BIASES, Layer, Shape, head_dim_of
from engine.heads.masked_lm import BERT_LM
from engine.heads.scores import classifier
from engine.settings import Config, integer, refuse, required

NAMES = Names(
    words="embeddings.word_embeddings",
    positions="embeddings.position_embeddings",
    types="embeddings.token_type_embeddings",
    embedding_norm="embeddings.LayerNorm",
    layer="encoder.layer.{}",
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    attention_output="attention.output.dense",
    attention_norms=NormNames(sum="attention.output.LayerNorm"),
    mlp_in=("intermediate.dense",),
    mlp_out="output.dense",
    mlp_norms=NormNames(sum="output.LayerNorm"),
)


def read_shape(config: Config, first_position: int = 0) -> Shape:
    """`first_position` is the row of the position table that the first token of a sequence has."""
    refuse(config, "position_embedding_type", "absolute")
    refuse(config, "is_decoder", False)  # its attention would be causal
    width, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings") - first_position,
        first_position=first_position,
        types=integer(config, "type_vocab_size"),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim_of(width, heads),
        mlp_width=integer(config, "intermediate_size"),
        hidden_act=required(config, "hidden_act"),
        eps=required(config, "layer_norm_eps"),
        layers=(Layer(),) * integer(config, "num_hidden_layers"),
        biases=ALL_BIASES,
    )


BERT = Family(
    prefixes=("bert.",),
    load_encoder=encoder_loader(read_shape, NAMES),
    load_score_head=classifier("pooler.dense", torch.tanh, "classifier"),
    mlm_head=BERT_LM,
    unused=("pooler.",),
    unused_of={"BertForPreTraining": ("cls.",), "BertForMaskedLM": ("cls.",)},
)
