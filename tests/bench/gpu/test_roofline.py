"""The bounds are those that the targets of the design were made with."""

import pytest

from bench.gpu.roofline import bounds
from bench.gpu.shapes import BGE_M3, MINILM, PPLX, QWEN3, ModelShape

# texts, tokens: floor and target in milliseconds, to the digits of the table
QWEN3_MS = {
    (1, 128): ("0.27", "0.57"),
    (1, 512): ("0.61", "1.0"),
    (1, 4096): ("7.0", "12.4"),
    (5, 512): ("3.0", "5.1"),
    (25, 512): ("15", "25"),
    (50, 512): ("30", "51"),
    (100, 512): ("61", "101"),
    (100, 1024): ("129", "218"),
    (100, 4096): ("700", "1238"),
}
PPLX_MS = {
    (1, 128): ("0.27", "0.57"),
    (1, 512): ("0.65", "1.1"),
    (1, 4096): ("9.4", "17"),
    (5, 512): ("3.2", "5.5"),
    (25, 512): ("16", "27"),
    (50, 512): ("32", "55"),
    (100, 512): ("65", "109"),
    (100, 1024): ("145", "249"),
    (100, 4096): ("944", "1725"),
}
BGE_M3_MS = {
    (1, 128): ("0.17", "0.43"),
    (1, 512): ("0.42", "0.69"),
    (1, 4096): ("5.2", "9.2"),
    (5, 512): ("2.1", "3.4"),
    (25, 512): ("10.6", "17"),
    (50, 512): ("21", "34"),
    (100, 512): ("42", "69"),
    (100, 1024): ("91", "151"),
    (100, 4096): ("522", "916"),
}
MINILM_MS = {
    (1, 128): ("0.008", "0.12"),
    (1, 512): ("0.017", "0.12"),
    (5, 512): ("0.08", "0.16"),
    (25, 512): ("0.42", "0.8"),
    (50, 512): ("0.84", "1.6"),
    (100, 512): ("1.7", "3.2"),
}
TABLES = ((QWEN3, QWEN3_MS), (PPLX, PPLX_MS), (BGE_M3, BGE_M3_MS), (MINILM, MINILM_MS))
TABLE = [(shape, *key, *cells) for shape, rows in TABLES for key, cells in rows.items()]


@pytest.mark.parametrize(("shape", "texts", "tokens", "floor", "target"), TABLE)
def test_bounds_are_those_of_the_table(
    shape: ModelShape, texts: int, tokens: int, floor: str, target: str
) -> None:
    bound = bounds(shape, [tokens] * texts)
    assert in_digits_of(floor, bound.floor_s * 1e3) == floor
    assert in_digits_of(target, bound.target_s * 1e3) == target


def test_parameters_are_those_of_the_checkpoints_without_embeddings() -> None:
    millions = [round(shape.parameters / 1e6, 1) for shape in (QWEN3, PPLX, BGE_M3, MINILM)]
    assert millions == [440.4, 440.4, 302.0, 10.6]


def test_a_causal_token_sees_half_of_its_text() -> None:
    causal, full = (bounds(shape, [4096] * 100).floor_s for shape in (QWEN3, PPLX))
    assert 1.3 < full / causal < 1.4  # attention is half of the work of the full one


def test_no_forward_is_faster_than_its_launches_or_than_reading_its_weights() -> None:
    bound = bounds(QWEN3, [1])
    assert bound.target_s == pytest.approx(229 * 2.5e-6)
    assert bound.floor_s == pytest.approx(2 * 440.4e6 / 4.3e12, rel=1e-2)


def in_digits_of(cell: str, value: float) -> str:
    return f"{value:.{len(cell.partition('.')[2])}f}"
