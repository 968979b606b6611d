"""The modules that follow a Transformer in modules.json, as layers over float32 rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from checkpoint.spec import Module
from engine.activation import module_activation
from engine.errors import CheckpointError
from engine.linear import PlainLinear
from engine.norm import LayerNorm
from engine.weights import Weights

Layer = Callable[[Tensor], Tensor]  # [N, in] -> [N, out], float32

_LAYER_NORM_EPS = 1e-5  # torch's own, which sentence-transformers leaves as it is


@dataclass(frozen=True)
class Feature:
    """What modules find: its name, as a module's config gives it, its width and where it is."""

    name: str
    width: int
    place: torch.device


def load_modules(modules: Sequence[Module], reads: Feature, writes: str) -> tuple[list[Layer], int]:
    """The layers of modules that run in turn over rows of a feature, and the width they give.

    `writes` names the feature that the last leaves. Raises CheckpointError for a module that is
    unknown or has another input.
    """
    layers, name, width = [], reads.name, reads.width
    for module in modules:
        if module.kind not in _LOADERS:
            raise CheckpointError(f"module {module.kind!r} of modules.json is not known here")
        name = _feature_after(module, name)
        layer, width = _LOADERS[module.kind](module, width, reads.place)
        layers.append(layer)
    if name != writes:
        raise CheckpointError(f"modules.json ends with {name!r}, not with {writes!r}")
    return layers, width


def _feature_after(module: Module, current: str) -> str:
    """What the module writes. A config from before features had names says nothing of them."""
    name = module.config.get("module_input_name", current)
    if name != current:
        raise CheckpointError(f"{module.directory.name} reads {name!r}, but gets {current!r}")
    return str(module.config.get("module_output_name") or name)


def _load_dense(module: Module, width: int, place: torch.device) -> tuple[Layer, int]:
    inputs, outputs = int(module.config["in_features"]), int(module.config["out_features"])
    if inputs != width:
        raise CheckpointError(f"{module.directory.name} takes {inputs} features, but gets {width}")
    weights = Weights([module.directory / "model.safetensors"], place=place)
    linear = PlainLinear(
        weights.take("linear.weight", outputs, inputs),
        weights.take("linear.bias", outputs) if module.config.get("bias", True) else None,
        module_activation(module.config.get("activation_function") or "torch.nn.Tanh"),
    )
    layer: Layer = linear
    if module.config.get("use_residual"):
        layer = partial(_add_residual, linear, _load_residual(weights, inputs, outputs))
    weights.finish()
    return layer, outputs


def _load_residual(weights: Weights, inputs: int, outputs: int) -> Layer | None:
    """The projection of the input; None where the widths are equal and there is none."""
    if inputs == outputs:
        return None
    return PlainLinear(weights.take("residual.weight", outputs, inputs), None)


def _add_residual(linear: Layer, residual: Layer | None, rows: Tensor) -> Tensor:
    return linear(rows) + (rows if residual is None else residual(rows))


def _load_layer_norm(module: Module, width: int, place: torch.device) -> tuple[Layer, int]:
    dimension = int(module.config["dimension"])
    if dimension != width:
        raise CheckpointError(
            f"{module.directory.name} norms {dimension} features, but gets {width}"
        )
    weights = Weights([module.directory / "model.safetensors"], place=place)
    layer = LayerNorm(
        weights.take("norm.weight", width), weights.take("norm.bias", width), _LAYER_NORM_EPS
    )
    weights.finish()
    return layer, width


def _load_normalize(_: Module, width: int, __: torch.device) -> tuple[Layer, int]:
    return partial(F.normalize, dim=-1), width


_LOADERS: Mapping[str, Callable[[Module, int, torch.device], tuple[Layer, int]]] = {
    "Dense": _load_dense,
    "LayerNorm": _load_layer_norm,
    "Normalize": _load_normalize,
}
