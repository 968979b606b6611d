from dataclasses import replace

import pytest
import torch
from poison import assert_rounded, make_norm

from engine.encoder import Embeddings
from engine.packing import Packed
from engine.triton_kernels.embed import embed

POSITIONS, VOCABULARY = 40, 90


def tables(kind: str, width: int, dtype: torch.dtype) -> Embeddings:
    words = torch.randn(VOCABULARY, width).to(dtype)
    positions = torch.randn(POSITIONS, width).to(dtype)
    type_rows = torch.randn(2, width).to(dtype)
    norm = make_norm("layer", width)
    return {
        "words": Embeddings(words, POSITIONS),
        "normed words": Embeddings(words, POSITIONS, norm=make_norm("unbiased", width)),
        "positions": Embeddings(words, POSITIONS, positions=positions, norm=norm),
        "positions and types": Embeddings(
            words, POSITIONS, types=2, positions=positions.repeat(2, 1), norm=norm
        ),
        "types": Embeddings(words, POSITIONS, types=2, type_rows=type_rows, norm=norm),
        "one type": Embeddings(words, POSITIONS, type_rows=type_rows[:1]),
    }[kind]


def in_float32(embeddings: Embeddings) -> Embeddings:
    """The tables widened, so that the reference rounds nothing."""
    fields = ("words", "positions", "type_rows")
    wide = {name: getattr(embeddings, name) for name in fields}
    return replace(embeddings, **{k: None if v is None else v.float() for k, v in wide.items()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("kind", "tokens", "width"),
    [
        ("words", 1, 1000),
        ("normed words", 3, 768),
        ("positions", 5, 384),
        ("positions and types", 7, 384),
        ("types", 7, 768),
        ("one type", 7, 48),
    ],
)
def test_rows_are_those_of_the_reference(
    kind: str, tokens: int, width: int, typed: bool, dtype: torch.dtype
) -> None:
    embeddings = tables(kind, width, dtype)
    input_ids = torch.randint(VOCABULARY, (tokens,), dtype=torch.int32)
    position_ids = torch.randint(POSITIONS, (tokens,), dtype=torch.int32)
    type_ids = torch.randint(2, (tokens,), dtype=torch.int32) if typed else None
    exact = in_float32(embeddings)(Packed(input_ids, position_ids, type_ids))
    assert_rounded(embed(embeddings, input_ids, position_ids, type_ids), exact)


def test_ids_are_views_into_a_longer_buffer() -> None:
    embeddings = tables("positions and types", 48, torch.float32)
    buffer = torch.full((4, 9), 10**9, dtype=torch.int32)
    buffer[:3, :5] = 1
    exact = embeddings(Packed(*buffer[:3, :5]))
    assert_rounded(embed(embeddings, *buffer[:3, :5]), exact)


def test_rows_beside_those_asked_for_are_not_read() -> None:
    words = torch.full((3, 48), torch.nan)
    words[1] = torch.randn(48)
    ids = torch.ones(2, dtype=torch.int32)
    assert embed(Embeddings(words, 1), ids, ids, None).isfinite().all()
