"""Embeddings, joins, norms, rotations and pooling in C++ compute what the plain ones do."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hidden_states import HiddenStates
from torch import Tensor

from checkpoint.spec import Pooling
from engine.cpu.rows import CpuEmbed, CpuJoin, CpuNorm, CpuPool, CpuRotaryTable
from engine.encoder import Embeddings
from engine.heads.pooled import PooledHead
from engine.join import JoinNorms, PlainJoin
from engine.kernels import plain_kernels
from engine.norm import LayerNorm, Norm, RmsNorm
from engine.packing import Packed
from engine.pooling import POOLINGS
from engine.rotary import PlainRotaryTable, rotary_table

# Of results of about ±3.
TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 2**-7}
WIDTHS = [1, 15, 16, 40, 384, 1000]
ROWS = [1, 7, 100]  # the last for several threads


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_close(actual: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[actual.dtype]
    torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)


def norms(width: int) -> Mapping[str, Norm]:
    weight, bias = 1 + 0.3 * random(width, seed=1), random(width, seed=2)
    return {
        "layer": LayerNorm(weight, bias, 1e-5),
        "layer, no bias": LayerNorm(weight, None, 1e-2),
        "rms": RmsNorm(weight, 1e-6),
    }


NORMS = tuple(norms(1))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", NORMS)
def test_norm_is_the_plain_one(library: Any, kind: str, dtype: torch.dtype) -> None:
    for width in WIDTHS[1:]:
        norm = norms(width)[kind]
        for rows in ROWS:
            x = (3 + random(rows, width, seed=rows)).to(dtype)
            before = x.clone()
            assert_close(CpuNorm(library, norm)(x), norm(x.float()))
            assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "places", [(), ("sum",), ("next",), ("behind", "next"), ("behind", "sum", "next")]
)
def test_join_is_the_plain_one(library: Any, places: tuple[str, ...], dtype: torch.dtype) -> None:
    for width in WIDTHS[1:]:
        kinds = norms(width)
        chosen = JoinNorms(**{place: kinds[NORMS[i % 3]] for i, place in enumerate(places)})
        for rows in ROWS:
            branch, hidden = random(rows, width), random(rows, width, seed=1).to(dtype)
            before = hidden.clone()
            branch = branch.to(dtype)
            expected = PlainJoin(chosen)(branch.float().clone(), hidden.float())
            actual = CpuJoin(library, chosen)(branch, hidden)
            assert torch.equal(hidden, before)
            for ours, plain in zip(actual, expected, strict=True):
                assert_close(ours, plain)


def packed_ids(ids: Tensor, places: Tensor, types: Tensor | None) -> Packed:
    return Packed(ids.int(), places.int(), None if types is None else types.int())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", [None, *NORMS])
def test_embeddings_are_the_plain_ones(library: Any, kind: str | None, dtype: torch.dtype) -> None:
    for width in WIDTHS[1:]:
        norm = None if kind is None else norms(width)[kind]
        words, rows = random(50, width).to(dtype), random(2, width, seed=1).to(dtype)
        positions = random(2 * 20, width, seed=2).to(dtype)
        for count in ROWS:
            ids, places = torch.arange(count) * 7 % 50, torch.arange(count) * 3 % 20
            for tables in (
                Embeddings(words, 20, norm=norm),
                Embeddings(words, 20, 2, positions, norm=norm),
                Embeddings(words, 20, 2, None, rows, norm=norm),
            ):
                wide = Embeddings(
                    *(words.float(), 20, tables.types),
                    *(
                        None if t is None else t.float()
                        for t in (tables.positions, tables.type_rows)
                    ),
                    norm,
                )
                for types in (None, torch.arange(count) % 2):
                    packed = packed_ids(ids, places, types)
                    assert_close(CpuEmbed(library, tables)(packed), wide(packed))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [8, 32, 64, 80, 128, 256])
def test_rotation_is_the_plain_one(library: Any, head_dim: int, dtype: torch.dtype) -> None:
    frequencies = 10_000.0 ** -(torch.arange(head_dim // 2) / (head_dim // 2))
    table = rotary_table(frequencies, 200)
    weight = 1 + 0.3 * random(5, head_dim, seed=1)
    for rows in ROWS:
        places = (torch.arange(rows) * 13 % 200).int()
        for norm in (None, RmsNorm(weight, 1e-6)):
            whole = random(rows, 7, head_dim).to(dtype)  # two of them are values, left alone
            expected, actual = whole.float(), whole.clone()
            PlainRotaryTable(table).at(places).turn_(expected[:, :5], norm)
            CpuRotaryTable(library.turn, table).at(places).turn_(actual[:, :5], norm)
            assert_close(actual, expected)
            assert torch.equal(actual[:, 5:], whole[:, 5:])


SPANS = np.array([(0, 0, 3), (0, 2, 7), (1, 0, 1), (2, 5, 40), (2, 5, 8), (3, 6, 7)], np.int32)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_is_the_plain_one(library: Any, pooling: Pooling, dtype: torch.dtype) -> None:
    plain = PooledHead(plain_kernels(torch.float32).pool, pooling, [])
    ours = PooledHead(CpuPool(library.pool), pooling, [])
    for hidden in (
        HiddenStates.random([7, 1, 40, 7, 150, 3]),
        HiddenStates.random([7, 1, 40, 7], spans=SPANS),
    ):
        rounded = HiddenStates(hidden.batch, [s.to(dtype).float() for s in hidden.sequences])
        expected = rounded.answered(plain)
        actual = hidden.answered(ours, dtype)
        np.testing.assert_allclose(actual.rows, expected.rows, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_token_that_is_no_number_is_seen_in_its_row_alone(
    library: Any, pooling: Pooling, broken: float
) -> None:
    hidden = HiddenStates.random([7, 1, 40, 7])
    hidden.sequences[2][5, 20] = broken
    answer = hidden.answered(PooledHead(CpuPool(library.pool), pooling, []))
    unread = pooling in ("cls", "last_token")
    assert answer.finite.tolist() == [True, True, unread, True]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_row_that_is_no_number_spoils_no_other(library: Any, dtype: torch.dtype) -> None:
    join = CpuJoin(library, JoinNorms(sum=norms(40)["layer"], next=norms(40)["rms"]))
    branch, hidden = random(9, 40).to(dtype), random(9, 40, seed=1).to(dtype)
    healthy = join(branch.clone(), hidden)
    hidden[4, 3] = math.nan
    broken = join(branch.clone(), hidden)
    others = torch.arange(9) != 4
    for rows, expected in zip(broken, healthy, strict=True):
        assert rows[4].isnan().all()
        assert torch.equal(rows[others], expected[others])
