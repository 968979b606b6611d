"""The numbers of every output type, by hand and against sentence-transformers' definitions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from transport_jobs import make_spec

from api.quantize import OutputDtype, quantize
from checkpoint.spec import ModelSpec

# The worked example of the API's documentation: 10010101 00011111.
BITS = [1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1]
ROW = np.array([[0.5 if bit else -0.5 for bit in BITS]], np.float32)


def spec(**changes: Any) -> ModelSpec:
    return make_spec(**({"calibration": None, "dim": 16} | changes))


def one(rows: np.ndarray, dtype: OutputDtype, order: str = "big", **changes: Any) -> list[Any]:
    values: list[Any] = quantize(rows, spec(**changes), dtype, order)[0].tolist()  # type: ignore[arg-type]
    return values


def test_bits_are_packed_from_the_most_significant_one() -> None:
    assert one(ROW, "ubinary") == [149, 31]


def test_binary_is_ubinary_less_128_and_no_twos_complement() -> None:
    assert one(ROW, "binary") == [21, -97]


def test_bits_may_be_packed_from_the_least_significant_one() -> None:
    assert one(ROW, "ubinary", "little") == [169, 248]


def test_zero_is_no_bit_but_for_the_quantizer_that_says_so() -> None:
    zeros = np.zeros((1, 8), np.float32)
    assert one(zeros, "ubinary") == [0]
    assert one(zeros, "ubinary", quantizer="tanh_int8") == [255]


rows_of_any_size = npst.arrays(
    np.float32, (3, 8), elements=st.floats(-100, 100, width=32, allow_subnormal=False)
)


@given(rows_of_any_size)
def test_int8_without_ranges_keeps_the_direction(rows: np.ndarray) -> None:
    quantized = quantize(rows, spec(), "int8", "big")
    assert quantized.dtype == np.int8
    for row, integers in zip(rows.astype(np.float64), quantized.astype(np.float64), strict=True):
        largest = np.abs(row).max()
        if largest > 1e-6:
            assert np.abs(integers).max() == 127
            # Half a step of 1/127 of the largest entry, and float32 on top.
            np.testing.assert_allclose(integers * largest / 127, row, atol=largest * 0.5001 / 127)


@given(rows_of_any_size, st.sampled_from([None, "tanh_int8"]))
def test_uint8_is_int8_plus_128(rows: np.ndarray, quantizer: str | None) -> None:
    signed = quantize(rows, spec(quantizer=quantizer), "int8", "big").astype(int)
    unsigned = quantize(rows, spec(quantizer=quantizer), "uint8", "big")
    assert unsigned.dtype == np.uint8
    np.testing.assert_array_equal(unsigned.astype(int), signed + 128)


def test_ranges_divide_each_dimension_into_256_levels() -> None:
    ranges = ((-1.0, 1.0), (0.0, 255.0))
    rows = np.array([[-1, 0], [1, 255], [0, 10.5], [-9, 300]], np.float32)
    calibrated = spec(calibration=ranges, dim=2)
    quantized = quantize(rows, calibrated, "uint8", "big")
    # sentence-transformers: floor((x - low) / step), step = (high - low) / 255; clipped outside.
    np.testing.assert_array_equal(quantized, [[0, 0], [255, 255], [127, 10], [0, 255]])


def test_model_with_its_own_quantizer_has_its_integers_in_every_type() -> None:
    row = np.array([[-9, -1, -0.001, 0, 0.5, 1, 9, 0.25]], np.float32)
    expected = np.round(np.tanh(row) * 127)
    for dtype in ("int8", "float"):
        quantized = quantize(row, spec(quantizer="tanh_int8"), dtype, "big")  # type: ignore[arg-type]
        np.testing.assert_array_equal(quantized, expected)
    assert quantized.dtype == np.float32


def test_floats_of_a_model_without_quantizer_are_its_rows() -> None:
    assert quantize(ROW, spec(), "float", "big") is ROW


@pytest.mark.parametrize("dtype", ["int8", "uint8", "binary", "ubinary"])
def test_zero_rows_are_quantized_without_a_warning(dtype: OutputDtype) -> None:
    assert quantize(np.zeros((2, 8), np.float32), spec(), dtype, "big").shape[0] == 2
