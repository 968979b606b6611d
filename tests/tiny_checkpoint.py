"""Small checkpoints with every parameter random and large, so that no part can be wrong unnoticed.

Default initialisation hides errors: with uniform attention and zero biases, halved attention scores
move a model of two layers by 5e-5 and dropped biases by nothing. With these, each moves it by 7e-2.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from checkpoint.spec import ModelFiles, ModelSpec, Module, Pooling, Task

BASE_CONFIG: Mapping[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "hidden_act": "gelu",
    "max_position_embeddings": 320,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
}


@dataclass(frozen=True)
class TinyCheckpoint:
    """A model of random weights: `write` puts it on disk, a reference computes with `tensors`."""

    family: Literal["bert", "roberta"] = "bert"
    task: Task = "embed"
    pooling: Pooling = "mean"
    seed: int = 0
    labels: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)  # over BASE_CONFIG

    @property
    def full_config(self) -> dict[str, Any]:
        return {**BASE_CONFIG, **self.config}

    def tensors(self) -> dict[str, Tensor]:
        """By the names of a checkpoint without a prefix, in the order of the layers."""
        generator = torch.Generator().manual_seed(self.seed)
        return {name: _parameter(name, shape, generator) for name, shape in self._shapes().items()}

    def write(self, directory: Path, tensors: Mapping[str, Tensor] | None = None) -> Path:
        weights = directory / "model.safetensors"
        save_file(dict(self.tensors() if tensors is None else tensors), weights)
        (directory / "config.json").write_text(json.dumps(self.full_config))
        return weights

    def spec(self, **changes: Any) -> ModelSpec:
        embeds = self.task == "embed"
        values: dict[str, Any] = {
            "id": "tiny",
            "task": self.task,
            "family": self.family,
            "dim": self.full_config["hidden_size"] if embeds else 1,
            "max_tokens": 300,
            "max_tokens_source": "the test",
            "vocab_size": self.full_config["vocab_size"],
            "tokenizer_sha256": "",
            "revision": "",
            "pooling": self.pooling if embeds else None,
        }
        return ModelSpec(**{**values, **changes})

    def files(self, directory: Path, *modules: Module, **changes: Any) -> ModelFiles:
        """`modules` come after Transformer and Pooling."""
        first = (Module("Transformer", directory, {}),)
        if self.task == "embed":
            first += (Module("Pooling", directory / "1_Pooling", {}),)
        values: dict[str, Any] = {
            "directory": directory,
            "config": self.full_config,
            "modules": first + modules,
            "weights": (directory / "model.safetensors",),
        }
        return ModelFiles(**{**values, **changes})

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        config = self.full_config
        width, mlp = config["hidden_size"], config["intermediate_size"]
        shapes: dict[str, tuple[int, ...]] = {
            "embeddings.word_embeddings.weight": (config["vocab_size"], width),
            "embeddings.position_embeddings.weight": (config["max_position_embeddings"], width),
            "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], width),
        }
        layers = {"embeddings.LayerNorm": (width,)}
        for index in range(config["num_hidden_layers"]):
            block = f"encoder.layer.{index}"
            layers |= {
                f"{block}.attention.self.{part}": (width, width)
                for part in ("query", "key", "value")
            }
            layers |= {
                f"{block}.attention.output.dense": (width, width),
                f"{block}.attention.output.LayerNorm": (width,),
                f"{block}.intermediate.dense": (mlp, width),
                f"{block}.output.dense": (width, mlp),
                f"{block}.output.LayerNorm": (width,),
            }
        if self.task == "score" and self.family == "bert":
            layers |= {"pooler.dense": (width, width), "classifier": (self.labels, width)}
        elif self.task == "score":
            layers |= {
                "classifier.dense": (width, width),
                "classifier.out_proj": (self.labels, width),
            }
        for name, shape in layers.items():
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
        return shapes


def _parameter(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    values = torch.randn(shape, generator=generator) * 0.3
    return values + 1 if name.endswith("LayerNorm.weight") else values
