"""MPNet: BERT without token types, and one bias by distance for all layers (arXiv:2004.09297)."""

from dataclasses import replace

from engine.families import bert
from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import NormNames
from engine.families.shape import Shape
from engine.heads.masked_lm import ROBERTA_LM
from engine.settings import Config, refuse

_NAMES = replace(
    bert.NAMES,
    types=None,
    relative_bias="encoder.relative_attention_bias",
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    attention_output="attention.attn.o",
    attention_norms=NormNames(sum="attention.LayerNorm"),
)


def _read_shape(config: Config) -> Shape:
    refuse(config, "relative_attention_num_buckets", 32)
    # The padding id is 1 whatever config.json says, and positions start behind it.
    return bert.read_shape({**config, "type_vocab_size": 0}, first_position=2)


MPNET = Family(
    prefixes=("mpnet.",),
    load_encoder=encoder_loader(_read_shape, _NAMES),
    mlm_head=ROBERTA_LM,
    unused=("pooler.",),
    unused_of={"MPNetForMaskedLM": ("lm_head.",)},
)
