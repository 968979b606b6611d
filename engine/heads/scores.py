"""Heads of rerankers: the hidden states of a pair to one raw logit, as transformers has them."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from torch import Tensor

from engine.activation import Activation, hidden_activation
from engine.batch import Batch
from engine.errors import CheckpointError
from engine.heads.head import Backbone, LoadHead
from engine.heads.pooled import PooledHead
from engine.linear import PlainLinear
from engine.norm import LayerNorm
from engine.settings import integer


def classifier(dense: str, activation: Activation, output: str) -> LoadHead:
    """A layer on the first token, then the logit. `dense` and `output` name the two."""
    return partial(_load_classifier, dense=dense, activation=activation, output=output)


def _load_classifier(
    backbone: Backbone, dense: str, activation: Activation, output: str
) -> PooledHead:
    weights, width = backbone.weights, backbone.width
    first = PlainLinear(
        weights.take(f"{dense}.weight", width, width),
        weights.take(f"{dense}.bias", width),
        activation,
    )
    return PooledHead(
        backbone.kernels.pool, "cls", [first, _load_output(backbone, output, bias=True)]
    )


def load_modernbert_classifier(backbone: Backbone) -> PooledHead:
    """Layer, activation and norm over the first token or the mean, then the logit."""
    config, weights, width = backbone.config, backbone.weights, backbone.width
    pooling = config.get("classifier_pooling", "cls")
    if pooling not in ("cls", "mean"):
        raise CheckpointError(f"classifier_pooling {pooling!r} is not known: cls, mean")
    dense = PlainLinear(
        weights.take("head.dense.weight", width, width),
        weights.take("head.dense.bias", width) if config.get("classifier_bias") else None,
        hidden_activation(config.get("classifier_activation", "gelu")),
    )
    norm = LayerNorm(
        weights.take("head.norm.weight", width),
        weights.take("head.norm.bias", width) if config.get("norm_bias") else None,
        config.get("norm_eps", 1e-5),
    )
    return PooledHead(
        backbone.kernels.pool,
        pooling,
        [dense, norm, _load_output(backbone, "classifier", bias=True)],
    )


@dataclass(frozen=True, eq=False)
class LastTokenHead(PooledHead):
    """The logit of the last token that is not padding, as transformers finds it: by its id.

    Some tokenizers end a text with the token that also pads, and models were trained to score what
    stands before it. Where all tokens are padding it is the first.
    """

    pad_token_id: int = -1

    def arrange(self, batch: Batch) -> Batch:
        """With a span of one token in each sequence."""
        ends = np.cumsum(batch.lengths)
        starts = ends - batch.lengths
        tokens = np.arange(batch.tokens)
        # Of a padding token the number is that of its sequence's first, and the largest wins.
        kept = np.where(
            batch.input_ids == self.pad_token_id, np.repeat(starts, batch.lengths), tokens
        )
        places = np.maximum.reduceat(kept, starts) - starts
        spans = np.stack([np.arange(batch.sequences), places, places + 1], axis=1)
        return replace(batch, spans=spans.astype(np.int32))


def load_last_token_classifier(backbone: Backbone) -> PooledHead:
    """What transformers calls `score`, in its one class for all decoders."""
    config = backbone.config
    layers, pool = [_load_output(backbone, "score", bias=False)], backbone.kernels.pool
    if config.get("pad_token_id") is None:
        return PooledHead(pool, "last_token", layers)
    return LastTokenHead(pool, "last_token", layers, integer(config, "pad_token_id"))


def load_yes_no_head(backbone: Backbone, tokens: tuple[int, int]) -> PooledHead:
    """How much likelier a causal LM finds "yes" than "no" as the next token.

    The two logits are products of one hidden state, so their difference is the product with the
    difference of two rows: the other rows of the vocabulary are never read. `tokens` are the ids of
    yes and no.
    """
    yes, no = _decoder_rows(backbone, tokens)
    return PooledHead(backbone.kernels.pool, "last_token", [PlainLinear((yes - no)[None], None)])


def _decoder_rows(backbone: Backbone, tokens: tuple[int, int]) -> Tensor:
    """Rows of `lm_head`, or of the embeddings where they are the same matrix."""
    weights = backbone.weights
    tied = backbone.config.get("tie_word_embeddings", "lm_head.weight" not in weights)
    weights.ignore("lm_head.")
    name = "embed_tokens.weight" if tied else "lm_head.weight"
    return weights.take_rows(name, tokens, backbone.width)


def _load_output(backbone: Backbone, name: str, bias: bool) -> PlainLinear:
    weights = backbone.weights
    weight = weights.take(f"{name}.weight", -1, backbone.width)
    if weight.size(0) != 1:
        raise CheckpointError(
            f"{name!r} has {weight.size(0)} labels; a score is the logit of a single one"
        )
    return PlainLinear(weight, weights.take(f"{name}.bias", 1) if bias else None)
