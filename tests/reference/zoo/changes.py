"""What a mutant does to a tensor, and mutants that several families share."""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from reference.mutants import Change, Mutant, Mutants
from reference.zoo.modules import POOLING_MODES

Tensor = NDArray[np.float32]


def halve(tensor: Tensor) -> Tensor:
    return tensor * np.float32(0.5)


def swap_halves(tensor: Tensor) -> Tensor:
    """Of the rows: the two parts of a packed gate, or the heads."""
    return np.roll(tensor, len(tensor) // 2, axis=0)


def shift_rows(by: int) -> Change:
    return partial(np.roll, shift=by, axis=0)


def part(index: int, of: int, change: Change) -> Change:
    """Change one of the equal parts of a packed projection."""

    def changed(tensor: Tensor) -> Tensor:
        parts = np.split(tensor, of)
        parts[index] = change(parts[index])
        return np.concatenate(parts)

    return changed


def interleave(head_dim: int) -> Change:
    """The rows of a projection as a rotation of neighbours, and not of halves, would want them."""

    def changed(tensor: Tensor) -> Tensor:
        heads = tensor.reshape(-1, 2, head_dim // 2, *tensor.shape[1:])
        return heads.swapaxes(1, 2).reshape(tensor.shape)

    return changed


def pooling_mutant(mode: str) -> Mutant:
    """Another pooling, in the layout of versions 2 to 5."""
    return Mutant(
        config={f"pooling_mode_{name}": name == mode for name in POOLING_MODES},
        file="1_Pooling/config.json",
    )


def without(mutants: Mutants, *details: str) -> Mutants:
    return {name: mutant for name, mutant in mutants.items() if name not in details}
