"""RoBERTa and XLM-R: BERT, but positions start behind the padding id (arXiv:1907.11692)."""

from collections.abc import Mapping
from typing import Any

import torch

from engine.encoder import Encoder
from engine.errors import CheckpointError
from engine.families import bert
from engine.families.family import Family
from engine.heads.scores import classifier
from engine.kernels import Kernels
from engine.weights import Weights


def load_encoder(config: Mapping[str, Any], weights: Weights, kernels: Kernels) -> Encoder:
    pad_token_id = config.get("pad_token_id")
    if pad_token_id is None:
        raise CheckpointError("config.json lacks 'pad_token_id': positions start behind it")
    return bert.load_encoder(config, weights, kernels, first_position=pad_token_id + 1)


ROBERTA = Family(
    prefixes=("roberta.",),
    load_encoder=load_encoder,
    load_score_head=classifier("classifier.dense", torch.tanh, "classifier.out_proj"),
    unused=("embeddings.position_ids", "pooler."),
)
