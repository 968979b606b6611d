"""What a Llama block may get wrong.

Where positions start is not among it: a rotation knows distances alone.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from reference.mutants import Mutant, Mutants
from reference.zoo import changes


def _theta(theta: float, **scaling: Any) -> Mapping[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **scaling}}


def rotated_by_neighbours(head_dim: int) -> Mutants:
    """For an engine that takes GPT-J's rotation; norms of heads turn with the projections."""
    return {
        "rotation of neighbours": Mutant(
            r"self_attn\.[qk]_(proj|norm)\.", changes.interleave(head_dim)
        )
    }


BLOCK: Mutants = {
    "heads of queries swapped": Mutant(r"q_proj\.", changes.swap_halves),
    "heads of values swapped": Mutant(r"v_proj\.", changes.swap_halves),
    "keys and values swapped": Mutant(swaps=("k_proj", "v_proj")),
    "gate and value swapped": Mutant(swaps=("gate_proj", "up_proj")),
    "GELU in place of SiLU": Mutant(config={"hidden_act": "gelu"}),
    "another epsilon": Mutant(config={"rms_norm_eps": 1e-6}),
    "no weight of the norm before attention": Mutant(r"input_layernorm\.weight", np.ones_like),
    "no weight of the norm before the MLP": Mutant(
        r"post_attention_layernorm\.weight", np.ones_like
    ),
    "no weight of the last norm": Mutant(r"^(model\.)?norm\.weight", np.ones_like),
    "norms of 1 + weight": Mutant(r"norm\.weight", lambda weight: weight + 1),
}
QK_NORM: Mutants = {
    "attention scale halved": Mutant(r"q_norm\.", changes.halve),
    "no norm of the queries' heads": Mutant(r"q_norm\.", np.ones_like),
    "no norm of the keys' heads": Mutant(r"k_norm\.", np.ones_like),
    **rotated_by_neighbours(16),
}
NO_QK_NORM: Mutants = {
    "attention scale halved": Mutant(r"q_proj\.", changes.halve),
    **rotated_by_neighbours(16),
}
BIASES: Mutants = {
    "attention scale halved": Mutant(r"q_proj\.", changes.halve),
    "no bias of queries": Mutant(r"q_proj\.bias"),
    "no bias of keys": Mutant(r"k_proj\.bias"),  # not idle: it is rotated by position
    "no bias of values": Mutant(r"v_proj\.bias"),
    **rotated_by_neighbours(12),
}
CAUSAL: Mutants = {"not causal": Mutant(config={"is_causal": False})}
BEFORE_5: Mutants = {"another θ": Mutant(config={"rope_theta": 10000})}
SINCE_5: Mutants = {"another θ": Mutant(config=_theta(10000))}
LAST: Mutants = {
    "mean pooled": changes.pooling_mutant("mean_tokens"),
    "first token pooled": changes.pooling_mutant("cls_token"),
}


def mistral(window: int) -> Mutants:
    return {
        "another θ": Mutant(config={"rope_theta": 1000000.0}),
        "window wider by one": Mutant(config={"sliding_window": window + 1}),
        "window narrower by one": Mutant(config={"sliding_window": window - 1}),
        "no window": Mutant(config={"sliding_window": None}),
    }


def scaled(scaling: Mapping[str, Any], theta: float) -> Mutants:
    """Of Llama 3.1's rotation, with `rope_parameters`."""
    return {
        "rotation not scaled": Mutant(config=_theta(theta)),
        "another θ": Mutant(config=_theta(10000.0, **scaling)),
        "rotation scaled linearly": Mutant(
            config=_theta(theta, rope_type="linear", factor=scaling["factor"])
        ),
    }
