"""RoBERTa and XLM-R: BERT, but positions start behind the padding id (arXiv:1907.11692)."""

import torch

from engine.families import bert
from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.shape import Shape
from engine.heads.masked_lm import ROBERTA_LM
from engine.heads.scores import classifier
from engine.settings import Config, integer


def read_shape(config: Config) -> Shape:
    # Absent it is transformers' default; null would leave open where positions start.
    padding = integer({"pad_token_id": 1, **config}, "pad_token_id")
    return bert.read_shape(config, first_position=padding + 1)


ROBERTA = Family(
    prefixes=("roberta.",),
    load_encoder=encoder_loader(read_shape, bert.NAMES),
    load_score_head=classifier("classifier.dense", torch.tanh, "classifier.out_proj"),
    mlm_head=ROBERTA_LM,
    unused=("pooler.",),
    unused_of=dict.fromkeys(
        ("RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"), ("lm_head.",)
    ),
)
