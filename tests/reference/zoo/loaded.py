"""A checkpoint in the reference libraries, whatever it answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from reference import sharp_inputs
from reference.zoo.inputs import Inputs

EAGER = {"attn_implementation": "eager", "dtype": torch.float32}

Features = dict[str, torch.Tensor]  # of a padded batch


@dataclass(frozen=True)
class Loaded:
    encode: Callable[[], Inputs]  # its texts or pairs
    run: Callable[[Features], torch.Tensor]  # rows of the batch, one after another
    config: Any
    prompt_tokens: int = 0  # at the start of each sequence, left out of the pooling


def texts(encode: Callable[[str], list[int]]) -> Inputs:
    """The texts that have ids at all."""
    ids = [row for text in sharp_inputs.texts() if (row := encode(text))]
    return Inputs(ids, [[0] * len(row) for row in ids])


def pairs(tokenizer: Any, max_tokens: int) -> Inputs:
    inputs = Inputs([], [])
    for pair in sharp_inputs.flat(sharp_inputs.pairs()):
        # A list: given two strings, transformers drops an empty document and its separator.
        encoded = tokenizer(
            [pair], truncation="only_second", max_length=max_tokens, return_token_type_ids=True
        )
        inputs.input_ids.extend(encoded["input_ids"])
        inputs.type_ids.extend(encoded["token_type_ids"])
    return inputs


def last_rows(states: torch.Tensor, features: Features) -> torch.Tensor:
    """Of each sequence's last token [B, D]; padding is on the right."""
    last = features["attention_mask"].sum(1) - 1
    return states[torch.arange(len(last)), last]


def token_rows(states: torch.Tensor, features: Features) -> torch.Tensor:
    """Of each token that is no padding [T, D]."""
    return states[features["attention_mask"].bool()]


def lengths(features: Features) -> Iterable[int]:
    return features["attention_mask"].sum(1).tolist()
