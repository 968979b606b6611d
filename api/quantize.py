"""Rows to the numbers a request asks for: float32, int8, uint8 or bits."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from checkpoint.spec import ModelSpec

OutputDtype = Literal["float", "int8", "uint8", "binary", "ubinary"]
BitOrder = Literal["big", "little"]  # of the dimensions within a byte

Rows = NDArray[np.float32]  # [N, D]


def quantize(rows: Rows, spec: ModelSpec, dtype: OutputDtype, bit_order: BitOrder) -> NDArray[Any]:
    """Rows as `dtype`: [N, D], bits packed to [N, D / 8].

    A model with a quantizer of its own has its integers even as floats. Otherwise int8 keeps the
    direction of each vector, scaled to its largest entry; or uses the calibrated range of each
    dimension, where the spec has ranges for these rows. `binary` is `ubinary` less 128,
    the offset of sentence-transformers, not a two's complement.
    """
    if dtype in ("binary", "ubinary"):
        packed = np.packbits(_bits(rows, spec), axis=1, bitorder=bit_order)
        return packed if dtype == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)
    if spec.quantizer is None and dtype == "float":
        return rows
    integers = _integers(rows, spec)
    if dtype == "float":
        return integers.astype(np.float32)
    return integers if dtype == "int8" else (integers.astype(np.int16) + 128).astype(np.uint8)


def _bits(rows: Rows, spec: ModelSpec) -> NDArray[np.bool_]:
    """1 for a positive value; the quantizer of pplx counts zero as positive."""
    return np.greater_equal(rows, 0) if spec.quantizer == "tanh_int8" else np.greater(rows, 0)


def _integers(rows: Rows, spec: ModelSpec) -> NDArray[np.int8]:
    """[N, D] in -128 to 127."""
    values: NDArray[Any]
    if spec.quantizer == "tanh_int8":
        values = np.rint(np.tanh(rows) * 127)  # the quantizer's clamp to -128 never acts
    elif spec.calibration is not None:
        low, high = np.asarray(spec.calibration, np.float64).T  # [D] each
        levels = np.floor((rows - low) * 255 / (high - low))
        values = np.clip(levels, 0, 255) - 128
    else:
        largest = np.abs(rows).max(axis=1, keepdims=True)
        largest[largest == 0] = 1  # a zero row stays one
        values = np.rint(rows / largest * 127)
    return values.astype(np.int8)
