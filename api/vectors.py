"""Rows to answers, in one pass over the float32 rows: truncate, normalise, quantise, encode."""

import binascii
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from api.quantize import BitOrder, OutputDtype, quantize
from checkpoint.spec import ModelSpec

# The least norm that is divided by, as sentence-transformers' Normalize (torch's F.normalize) has.
EPSILON = 1e-12

Rows = NDArray[np.float32]  # [N, D]


@dataclass(frozen=True)
class VectorForm:
    """What a request asks its vectors to be."""

    dimensions: int | None = None  # None: all
    normalize: bool | None = None  # None: as the model's modules say
    dtype: OutputDtype = "float"
    base64: bool = False
    bit_order: BitOrder = "big"


def finish(rows: Rows, spec: ModelSpec, form: VectorForm) -> NDArray[Any]:
    """Truncated, then normalised, then quantised, in that order: [N, …] of the form's dtype.

    Truncation comes first: a part of a unit vector is no unit vector.
    """
    rows = truncate(rows, form.dimensions)
    if spec.quantizer is None:
        normalize = spec.normalizes if form.normalize is None else form.normalize
        if normalize:
            rows = unit(rows)
        if normalize != spec.normalizes or rows.shape[1] != spec.dim:
            spec = replace(spec, calibration=None)  # its ranges are of whole rows as by default
        return np.ascontiguousarray(quantize(rows, spec, form.dtype, form.bit_order))
    quantized = quantize(rows, spec, form.dtype, form.bit_order)  # of the raw rows, as trained
    if form.normalize and form.dtype == "float":
        quantized = unit(quantized)
    return np.ascontiguousarray(quantized)


def truncate(rows: Rows, dimensions: int | None) -> Rows:
    return rows if dimensions is None else rows[:, :dimensions]


def unit(rows: Rows) -> Rows:
    """Each row at length 1; a zero row stays zero."""
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    unit_rows: Rows = rows / np.maximum(norms, EPSILON)[:, None].astype(np.float32)
    return unit_rows


def cosines(query: NDArray[np.float32], documents: Rows) -> NDArray[np.float32]:
    """Cosine of one row [D] with each of [N, D]: [N]."""
    rows = unit(np.concatenate([query[None], documents]))
    return np.asarray(rows[1:] @ rows[0], np.float32)


def embeddings_body(rows: NDArray[Any], base64: bool, model: str, tokens: int) -> bytes:
    """The JSON of an embeddings answer. Row by row, so that other threads get their turns."""
    encode = _base64 if base64 else _numbers
    items = [
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, encode(row))
        for index, row in enumerate(rows)
    ]
    usage = b'{"prompt_tokens":%d,"total_tokens":%d}' % (tokens, tokens)
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (
        b",".join(items),
        orjson.dumps(model),
        usage,
    )


def _numbers(row: NDArray[Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)


def _base64(row: NDArray[Any]) -> bytes:
    """The bytes of the row; float32 is little-endian, as every OpenAI SDK decodes it."""
    return b'"%b"' % binascii.b2a_base64(
        row.astype(row.dtype.newbyteorder("<")).data, newline=False
    )
