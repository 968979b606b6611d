"""BERT: learned absolute positions, token types, post-norm blocks (arXiv:1810.04805)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.block import Block, LayerNorm
from engine.encoder import Embeddings, Encoder
from engine.errors import CheckpointError
from engine.families.family import Family
from engine.heads.scores import classifier
from engine.heads.splade import MlmHead
from engine.kernels import Kernels
from engine.weights import Weights


def load_encoder(
    config: Mapping[str, Any], weights: Weights, kernels: Kernels, first_position: int = 0
) -> Encoder:
    """`first_position` is the row of the position table that the first token of a sequence has."""
    shape = BertShape.read(config)
    loader = _Loader(shape, weights, kernels)
    return Encoder(
        loader.embeddings(first_position),
        [loader.block(f"encoder.layer.{index}") for index in range(shape.layers)],
    )


@dataclass(frozen=True)
class BertShape:
    vocabulary: int
    positions: int
    types: int
    width: int
    layers: int
    heads: int
    mlp_width: int
    hidden_act: str
    eps: float

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "BertShape":
        """Raises CheckpointError for what config.json lacks or asks for in vain."""
        positions = config.get("position_embedding_type", "absolute")
        if positions != "absolute":
            raise CheckpointError(f"position_embedding_type {positions!r} is not known: absolute")
        if config.get("is_decoder"):
            raise CheckpointError("config.json says is_decoder: its attention would be causal")
        try:
            shape = cls(
                vocabulary=config["vocab_size"],
                positions=config["max_position_embeddings"],
                types=config["type_vocab_size"],
                width=config["hidden_size"],
                layers=config["num_hidden_layers"],
                heads=config["num_attention_heads"],
                mlp_width=config["intermediate_size"],
                hidden_act=config["hidden_act"],
                eps=config["layer_norm_eps"],
            )
        except KeyError as error:
            raise CheckpointError(f"config.json lacks {error}") from error
        if shape.width % shape.heads:
            raise CheckpointError(
                f"hidden_size {shape.width} is no multiple of {shape.heads} heads"
            )
        return shape


@dataclass(frozen=True)
class _Loader:
    shape: BertShape
    weights: Weights
    kernels: Kernels

    def embeddings(self, first_position: int) -> Embeddings:
        shape, dtype = self.shape, self.kernels.dtype
        words = self.weights.take(
            "embeddings.word_embeddings.weight", shape.vocabulary, shape.width
        )
        positions = self.weights.take(
            "embeddings.position_embeddings.weight", shape.positions, shape.width
        )[first_position:]
        types = self.weights.take(
            "embeddings.token_type_embeddings.weight", shape.types, shape.width
        )
        sums = types[:, None] + positions  # [types, positions, H]
        return Embeddings(
            words.to(dtype),
            sums.flatten(0, 1).to(dtype),
            positions.size(0),
            self.norm("embeddings.LayerNorm"),
        )

    def block(self, name: str) -> Block:
        width, mlp_width, heads = self.shape.width, self.shape.mlp_width, self.shape.heads
        qkv = [
            self.layer(f"{name}.attention.self.{part}", width, width)
            for part in ("query", "key", "value")
        ]
        linear = self.kernels.linear
        return Block(
            qkv=linear(torch.cat([w for w, _ in qkv]), torch.cat([b for _, b in qkv])),
            attention=self.kernels.attention(heads, width // heads),
            attention_output=linear(*self.layer(f"{name}.attention.output.dense", width, width)),
            attention_norm=self.norm(f"{name}.attention.output.LayerNorm"),
            mlp_up=linear(
                *self.layer(f"{name}.intermediate.dense", mlp_width, width), self.shape.hidden_act
            ),
            mlp_down=linear(*self.layer(f"{name}.output.dense", width, mlp_width)),
            mlp_norm=self.norm(f"{name}.output.LayerNorm"),
        )

    def layer(self, name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        weight = self.weights.take(f"{name}.weight", outputs, inputs)
        return weight, self.weights.take(f"{name}.bias", outputs)

    def norm(self, name: str) -> LayerNorm:
        weight = self.weights.take(f"{name}.weight", self.shape.width)
        bias = self.weights.take(f"{name}.bias", self.shape.width)
        return LayerNorm(weight.to(self.kernels.dtype), bias.to(self.kernels.dtype), self.shape.eps)


BERT = Family(
    prefixes=("bert.",),
    load_encoder=load_encoder,
    load_score_head=classifier("pooler.dense", torch.tanh, "classifier"),
    mlm_head=MlmHead(
        dense="cls.predictions.transform.dense",
        norm="cls.predictions.transform.LayerNorm",
        decoder="cls.predictions.decoder",
        biases=("cls.predictions.bias", "cls.predictions.decoder.bias"),
        embeddings="embeddings.word_embeddings.weight",
    ),
    unused=("embeddings.position_ids", "pooler."),
)
