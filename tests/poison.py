"""Tensors with NaN all around them: a kernel that reads or writes too far is found out."""

import torch
from torch import Tensor

from engine.norm import LayerNorm, Norm, RmsNorm


class Poisoned:
    """A [rows, columns] view, dense along columns, into NaN."""

    def __init__(self, values: Tensor) -> None:
        rows, columns = values.shape
        self._whole = torch.full((rows + 2, columns + 24), torch.nan, dtype=values.dtype)
        self.view = self._whole[1:-1, 8:-16]
        self.view.copy_(values)

    def assert_unspilled(self) -> None:
        """Nothing was written but the view."""
        self.view.fill_(torch.nan)
        assert self._whole.isnan().all()


def assert_rounded(actual: Tensor, exact: Tensor) -> None:
    """Within a unit in the last place of what float32 gives: the interpreter cuts bits off."""
    assert actual.shape == exact.shape
    rtol = max(torch.finfo(actual.dtype).eps, 1e-5)
    torch.testing.assert_close(actual.float(), exact, rtol=rtol, atol=1e-5)


def make_norm(kind: str, width: int, seed: int = 0) -> Norm:
    """rms, layer or unbiased, with float32 weights."""
    generator = torch.Generator().manual_seed(seed)
    weight = 1 + torch.rand(width, generator=generator)
    if kind == "rms":
        return RmsNorm(weight, 1e-6)
    bias = torch.randn(width, generator=generator) if kind == "layer" else None
    return LayerNorm(weight, bias, 1e-5)
