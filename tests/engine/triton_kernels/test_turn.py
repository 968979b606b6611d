import pytest
import torch
from poison import assert_rounded
from torch import Tensor

from engine.norm import RmsNorm
from engine.rotary import PlainRotaryTable, rotary_table
from engine.triton_kernels.turn import turn_

POSITIONS = 300


def table(head_dim: int) -> Tensor:
    return rotary_table(10_000 ** -torch.linspace(0, 1, head_dim // 2), POSITIONS)


def qk_norm(heads: int, head_dim: int) -> RmsNorm:
    return RmsNorm(1 + torch.rand(heads, head_dim), 1e-6)


# tokens, turned heads, all heads, their size, and the dtype of them
SHAPES = [
    (1, 24, 32, 128, torch.bfloat16),
    (65, 4, 6, 32, torch.float32),
    (5, 3, 5, 64, torch.float16),
    (3, 14, 16, 96, torch.float32),
    (7, 4, 5, 256, torch.bfloat16),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("steps", ["norm", "rope", "norm and rope"])
def test_turned_heads_are_those_of_the_reference(
    shape: tuple[int, int, int, int, torch.dtype], steps: str
) -> None:
    tokens, turned_heads, heads, head_dim, dtype = shape
    # Values, the heads beside them and the rows around are NaN before and after.
    whole = torch.full((tokens + 2, heads + 3, head_dim), torch.nan, dtype=dtype)
    qkv = whole[1:-1, 1 : heads + 1]
    qkv[:, :turned_heads] = torch.randn(tokens, turned_heads, head_dim)
    norm = qk_norm(turned_heads, head_dim) if "norm" in steps else None
    angles = table(head_dim) if "rope" in steps else None
    position_ids = torch.randint(POSITIONS, (tokens,), dtype=torch.int32)

    exact = qkv[:, :turned_heads].to(torch.float32, copy=True)
    if norm is not None:
        exact = norm(exact)
    if angles is not None:
        PlainRotaryTable(angles).at(position_ids).turn_(exact, None)
    turn_(qkv, turned_heads, norm, angles, position_ids)
    assert_rounded(qkv[:, :turned_heads], exact)
    qkv[:, :turned_heads] = torch.nan
    assert whole.isnan().all()


def test_heads_without_norm_and_rotation_stay_as_they_are() -> None:
    qkv = torch.randn(2, 3, 32)
    before = qkv.clone()
    turn_(qkv, 2, None, None, torch.zeros(2, dtype=torch.int32))
    assert torch.equal(qkv, before)
