"""Activation functions by the names that checkpoints give them."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import CheckpointError

Activation = Callable[[Tensor], Tensor]

_gelu_tanh: Activation = partial(F.gelu, approximate="tanh")

# `hidden_act` of config.json. "gelu" is the erf form: the tanh form would move every vector.
_HIDDEN: Mapping[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}

# The last part of a class path such as torch.nn.modules.activation.Tanh; None: the identity.
_MODULE: Mapping[str, Activation | None] = {
    "Identity": None,
    "Tanh": torch.tanh,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
    "Sigmoid": torch.sigmoid,
}


def hidden_activation(name: str) -> Activation:
    """The function that `hidden_act` names. Raises CheckpointError for one that is not known."""
    if name not in _HIDDEN:
        raise CheckpointError(f"hidden_act {name!r} is not known; known: {', '.join(_HIDDEN)}")
    return _HIDDEN[name]


def module_activation(path: str) -> Activation | None:
    """The function of a Dense module's `activation_function`; None for the identity."""
    name = path.rpartition(".")[2]
    if name not in _MODULE:
        raise CheckpointError(
            f"activation_function {path!r} is not known; known: {', '.join(_MODULE)}"
        )
    return _MODULE[name]
