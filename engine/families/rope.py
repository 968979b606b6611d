"""The frequencies of rotary positions, as config.json asks for them in either of its styles."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.errors import CheckpointError

# Keys of a scaling that change nothing or are read elsewhere.
_IGNORED = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


@dataclass(frozen=True)
class Rope:
    """Frequencies θ^(-2i / D), scaled. Hashable: layers with equal ones share a table."""

    theta: float
    scaling: str = "default"  # linear, ntk, llama3
    factor: float = 1.0
    # Of llama3: wavelengths up to context ÷ high stay, those from context ÷ low are scaled.
    low_factor: float = 1.0
    high_factor: float = 1.0
    context_tokens: int = 0

    def frequencies(self, head_dim: int) -> Tensor:
        """[head_dim / 2], radians a token, in the float32 that models were trained with."""
        theta = self.theta * (self.factor if self.scaling == "ntk" else 1)
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        frequencies = 1 / theta**exponents
        if self.scaling == "linear":
            return frequencies / self.factor
        if self.scaling == "ntk":
            return frequencies / self.factor ** (2 / head_dim)
        if self.scaling == "llama3":
            return self._llama3(frequencies)
        return frequencies

    def _llama3(self, frequencies: Tensor) -> Tensor:
        """Long wavelengths are scaled, short ones are not, and between them it is gradual."""
        turns = self.context_tokens * frequencies / (2 * math.pi)  # within the trained context
        kept = (turns - self.low_factor) / (self.high_factor - self.low_factor)
        kept = kept.clamp(0, 1)
        return (1 - kept) * frequencies / self.factor + kept * frequencies


def read_rope(
    config: Mapping[str, Any],
    default_theta: float = 10_000.0,
    layer_type: str | None = None,
    theta_key: str = "rope_theta",
) -> Rope:
    """Raises CheckpointError for a scaling that is not known, naming it.

    `rope_parameters` (transformers 5) has θ and the scaling, perhaps by type of layer; before, θ
    stood under `theta_key` and `rope_scaling` beside it, for layers that see everything.
    """
    parameters = dict(config.get("rope_parameters") or {})
    by_layer_type = any(isinstance(value, Mapping) for value in parameters.values())
    if parameters and by_layer_type != (layer_type is not None):
        raise CheckpointError(f"config.json: rope_parameters {parameters} are of another model")
    if by_layer_type:
        parameters = dict(parameters.get(layer_type) or {})
    if layer_type != "sliding_attention":
        parameters |= config.get("rope_scaling") or {}
    theta = parameters.get("rope_theta", config.get(theta_key) or default_theta)
    partial = parameters.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if partial not in (None, 1):
        raise CheckpointError(f"partial_rotary_factor {partial!r}: only whole heads are rotated")
    return _scaled(float(theta), parameters, config)


def _scaled(theta: float, parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Rope:
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    settings = {key: value for key, value in parameters.items() if key not in _IGNORED}
    try:
        # Dynamic scaling begins behind max_position_embeddings, where no sequence ends.
        if kind in ("default", "dynamic"):
            return Rope(theta)
        if kind in ("linear", "ntk") and settings.keys() == {"factor"}:
            return Rope(theta, kind, float(settings["factor"]))
        if kind == "llama3":
            return Rope(
                theta,
                kind,
                factor=float(settings["factor"]),
                low_factor=float(settings["low_freq_factor"]),
                high_factor=float(settings["high_freq_factor"]),
                context_tokens=int(
                    settings.get("original_max_position_embeddings")
                    or config["max_position_embeddings"]
                ),
            )
    except KeyError as error:
        raise CheckpointError(f"rope scaling {kind!r} lacks {error}") from error
    raise CheckpointError(f"rope scaling {kind!r} with {settings} is not known")
