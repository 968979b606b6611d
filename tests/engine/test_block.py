"""The parts of a block, each against its formula in float64."""

import math

import pytest
import torch
from torch import Tensor

from engine.activation import hidden_activation
from engine.block import Mlp
from engine.families.rope import Rope
from engine.join import JoinNorms, PlainJoin
from engine.linear import PlainGatedLinear, PlainLinear
from engine.norm import RmsNorm
from engine.rotary import PlainRotaryTable, rotary_table

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rms_norm_follows_its_formula_and_leaves_its_input(dtype: torch.dtype) -> None:
    x, weight = random(5, 3, 16).to(dtype), 1 + 0.3 * random(3, 16, seed=1)
    before = x.clone()
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-2).sqrt() * weight
    normed = RmsNorm(weight, 1e-2)(x)
    assert normed.dtype == dtype
    torch.testing.assert_close(normed.double(), expected, rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(x, before, rtol=0, atol=0)


def test_rms_norm_of_large_activations_is_finite_in_bfloat16() -> None:
    # Their squares leave the range of float16 and round away in bfloat16.
    x = (random(4, 1024) * 3e4).to(torch.bfloat16)
    normed = RmsNorm(torch.ones(1024), 1e-6)(x)
    torch.testing.assert_close(
        normed.double().square().mean(-1), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-2
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rotation_turns_pairs_of_halves_by_position_times_frequency(dtype: torch.dtype) -> None:
    table = PlainRotaryTable(rotary_table(Rope(10_000.0).frequencies(8), 50).to(dtype))
    positions = torch.tensor([0, 1, 49, 7], dtype=torch.int32)
    whole = random(4, 5, 8).to(dtype)
    heads = whole.clone()
    table.at(positions).turn_(heads[:, :3], None)
    pairs = torch.complex(whole[:, :3, :4].double(), whole[:, :3, 4:].double())
    angles = positions[:, None, None].double() * 10_000.0 ** -(torch.arange(4) / 4).double()
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    expected = torch.cat([turned.real, turned.imag], -1)
    torch.testing.assert_close(heads[:, :3].double(), expected, rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(heads[:, 3:], whole[:, 3:], rtol=0, atol=0)


def test_scaled_frequencies_follow_their_formulas() -> None:
    plain = Rope(5e5).frequencies(16)
    torch.testing.assert_close(plain, 5e5 ** -(torch.arange(0, 16, 2) / 16))
    torch.testing.assert_close(Rope(5e5, "linear", factor=4.0).frequencies(16), plain / 4)
    ntk = Rope(5e5, "ntk", factor=4.0).frequencies(16)
    torch.testing.assert_close(ntk, (4 * 5e5) ** -(torch.arange(0, 16, 2) / 16) / 4 ** (2 / 16))


def test_llama3_scales_long_wavelengths_alone() -> None:
    plain = Rope(5e5).frequencies(64)
    rope = Rope(5e5, "llama3", 8.0, low_factor=1.0, high_factor=4.0, context_tokens=512)
    kept = plain / rope.frequencies(64)
    wavelengths = 2 * math.pi / plain
    short, long = wavelengths < 512 / 4, wavelengths > 512
    between = ~short & ~long
    assert min(short.sum(), between.sum(), long.sum()) >= 3
    torch.testing.assert_close(kept[short], torch.ones(int(short.sum())))
    torch.testing.assert_close(kept[long], torch.full((int(long.sum()),), 8.0))
    # In between 1 / scale is linear in the turns within the context.
    turns = (512 / wavelengths[between] - 1) / 3
    torch.testing.assert_close(1 / kept[between], turns + (1 - turns) / 8)


@pytest.mark.parametrize("hidden_act", ["silu", "gelu", "gelu_pytorch_tanh"])
def test_gate_is_the_half_that_is_activated(hidden_act: str) -> None:
    gate, up, down = random(6, 4), random(6, 4, seed=1), random(4, 6, seed=2)
    activation = hidden_activation(hidden_act)
    both = PlainLinear(torch.cat([gate, up]), None)
    mlp = Mlp(PlainGatedLinear(both, activation), PlainLinear(down, None))
    x = random(3, 4, seed=3)
    torch.testing.assert_close(mlp(x), (activation(x @ gate.T) * (x @ up.T)) @ down.T)


class Marks:
    """A norm that tells where it stood."""

    weight, bias, eps, rms = torch.ones(3), None, 0.0, True

    def __init__(self, number: float) -> None:
        self.number = number

    def __call__(self, x: Tensor) -> Tensor:
        return x * 10 + self.number


@pytest.mark.parametrize(
    ("norms", "hidden", "entered"),
    [
        (JoinNorms(), 2 + 1, 2 + 1),  # the branch is 2, what it is added to is 1
        (JoinNorms(sum=Marks(5)), 35, 35),
        (JoinNorms(next=Marks(5)), 3, 35),
        (JoinNorms(behind=Marks(7), next=Marks(5)), 27 + 1, 285),
        (JoinNorms(sum=Marks(5), next=Marks(6)), 35, 356),
    ],
)
def test_norms_stand_where_the_join_has_them(
    norms: JoinNorms, hidden: float, entered: float
) -> None:
    before = torch.ones(2, 3)
    after, read = PlainJoin(norms)(torch.full((2, 3), 2.0), before)
    torch.testing.assert_close(after, torch.full((2, 3), float(hidden)))
    torch.testing.assert_close(read, torch.full((2, 3), float(entered)))
    torch.testing.assert_close(before, torch.ones(2, 3))
