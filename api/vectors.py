"""Rows to answers, in one pass over the float32 rows: truncate, normalise, encode."""

import binascii

import numpy as np
import orjson
from numpy.typing import NDArray

# The least norm that is divided by, as sentence-transformers' Normalize (torch's F.normalize) has.
EPSILON = 1e-12


def finish(
    rows: NDArray[np.float32], dimensions: int | None, normalize: bool
) -> NDArray[np.float32]:
    """Cut each row to `dimensions`, then give it unit length if asked: [N, D] -> [N, dimensions].

    Truncation comes first: a part of a unit vector is no unit vector.
    """
    if dimensions is not None and dimensions < rows.shape[1]:
        rows = rows[:, :dimensions]
    if normalize:
        norms = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
        rows = rows / np.maximum(norms, EPSILON)[:, None].astype(np.float32)
    return np.ascontiguousarray(rows, dtype="<f4")


def cosines(query: NDArray[np.float32], documents: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of one row [D] with each of [N, D]: [N]."""
    unit = finish(np.concatenate([query[None], documents]), None, True)
    return np.asarray(unit[1:] @ unit[0], np.float32)


def embeddings_body(
    rows: NDArray[np.float32], encoding_format: str, model: str, tokens: int
) -> bytes:
    """The JSON of an embeddings answer. Row by row, so that other threads get their turns."""
    encode = _base64 if encoding_format == "base64" else _floats
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


def _floats(row: NDArray[np.float32]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)


def _base64(row: NDArray[np.float32]) -> bytes:
    """Little-endian float32, as every OpenAI SDK decodes it."""
    return b'"%b"' % binascii.b2a_base64(row.data, newline=False)
