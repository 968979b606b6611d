"""What turns hidden states into an answer: vectors for `embed`, one logit for `score`.

A head works in float32 whatever the encoder computes in: it sees B rows, not T.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from checkpoint.spec import ModelFiles, ModelSpec, Module, Pooling
from engine.activation import module_activation
from engine.errors import CheckpointError, EngineError
from engine.linear import Linear, PlainLinear
from engine.packing import Packed
from engine.pooling import pool
from engine.weights import Weights


class Head(Protocol):
    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        """[T, H] -> [B, D] float32, in the packed order."""
        ...


@dataclass(frozen=True, eq=False)
class EmbeddingHead:
    """Pooling, then the Dense modules. A final Normalize is the gateway's."""

    pooling: Pooling
    dense: Sequence[Linear]

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        rows = pool(hidden, packed, self.pooling)  # [B, H]
        for layer in self.dense:
            rows = layer(rows)
        return rows


@dataclass(frozen=True, eq=False)
class ClassificationHead:
    """tanh of a dense layer on the first token, then one logit."""

    dense: Linear
    output: Linear

    def __call__(self, hidden: Tensor, packed: Packed) -> Tensor:
        return self.output(self.dense(pool(hidden, packed, "cls")))  # [B, 1]


def load_embedding_head(spec: ModelSpec, files: ModelFiles, width: int) -> EmbeddingHead:
    """The modules after the Transformer, whose rows are `width` wide.

    Raises CheckpointError for a module that is unknown or in a place where it means something else.
    """
    if spec.pooling not in ("cls", "mean", "last_token"):
        known = "cls, mean, last_token"
        raise EngineError(f"{spec.id}: pooling {spec.pooling!r} is not known: {known}")
    dense: list[Linear] = []
    for module in _after_pooling(files.modules):
        layer, width = _load_dense(module, width)
        dense.append(layer)
    if width != spec.dim:
        raise CheckpointError(f"{spec.id}: the modules give {width} dimensions, not {spec.dim}")
    return EmbeddingHead(spec.pooling, dense)


def load_classification_head(
    weights: Weights, dense: str, output: str, width: int
) -> ClassificationHead:
    """`dense` and `output` are the names of the two layers."""
    output_weight = weights.take(f"{output}.weight", -1, width)
    if output_weight.size(0) != 1:
        raise CheckpointError(
            f"{output!r} has {output_weight.size(0)} labels; a score is the logit of a single one"
        )
    return ClassificationHead(
        PlainLinear(
            weights.take(f"{dense}.weight", width, width),
            weights.take(f"{dense}.bias", width),
            torch.tanh,
        ),
        PlainLinear(output_weight, weights.take(f"{output}.bias", 1)),
    )


def _after_pooling(modules: Sequence[Module]) -> Sequence[Module]:
    """The Dense modules, of modules that read Transformer, Pooling, Dense…, Normalize."""
    kinds = [module.kind for module in modules]
    for kind in kinds:
        if kind not in ("Transformer", "Pooling", "Dense", "Normalize"):
            raise CheckpointError(f"module {kind!r} of modules.json is not known")
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise CheckpointError(f"modules.json starts {kinds[:2]}, not with Transformer and Pooling")
    end = len(kinds) - 1 if kinds[-1] == "Normalize" else len(kinds)
    for kind in kinds[2:end]:
        if kind != "Dense":
            raise CheckpointError(f"module {kind!r} of modules.json is not in its place: {kinds}")
    return modules[2:end]


def _load_dense(module: Module, width: int) -> tuple[Linear, int]:
    inputs, outputs = int(module.config["in_features"]), int(module.config["out_features"])
    if inputs != width:
        raise CheckpointError(f"{module.directory.name} takes {inputs} features, but gets {width}")
    weights = Weights([module.directory / "model.safetensors"])
    layer = PlainLinear(
        weights.take("linear.weight", outputs, inputs),
        weights.take("linear.bias", outputs) if module.config.get("bias", True) else None,
        module_activation(module.config.get("activation_function", "torch.nn.Tanh")),
    )
    weights.finish()
    return layer, outputs
