"""Rows finished and encoded exactly."""

import base64
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from api.vectors import cosines, embeddings_body, finish

rows_of_any_size = npst.arrays(
    np.float32, (3, 8), elements=st.floats(-1000, 1000, width=32, allow_subnormal=False)
)


@given(rows_of_any_size, st.sampled_from([None, 1, 4, 8]), st.booleans())
def test_truncation_comes_before_normalisation(
    rows: np.ndarray, dimensions: int | None, normalize: bool
) -> None:
    finished = finish(rows, dimensions, normalize)
    expected = rows[:, :dimensions].astype(np.float64)
    if normalize:
        expected = expected / np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(finished, expected, rtol=1e-5, atol=1e-7)
    assert finished.dtype == np.dtype("<f4")
    assert finished.flags.c_contiguous


def test_zero_row_stays_finite() -> None:
    assert np.isfinite(finish(np.zeros((1, 4), np.float32), None, True)).all()


@given(rows_of_any_size)
def test_base64_is_little_endian_float32_of_exactly_the_rows(rows: np.ndarray) -> None:
    body = json.loads(embeddings_body(rows, "base64", "m", 9))
    for row, item in zip(rows, body["data"], strict=True):
        data = base64.b64decode(item["embedding"], validate=True)
        assert len(data) == 4 * 8
        np.testing.assert_array_equal(np.frombuffer(data, "<f4"), row)


@given(rows_of_any_size)
def test_floats_read_back_to_the_same_float32(rows: np.ndarray) -> None:
    body = json.loads(embeddings_body(rows, "float", "m", 9))
    read = np.array([item["embedding"] for item in body["data"]], np.float32)
    np.testing.assert_array_equal(read, rows)


def test_body_has_every_key_that_clients_need() -> None:
    body = json.loads(embeddings_body(np.ones((2, 3), np.float32), "float", 'a"b', 9))
    assert body == {
        "object": "list",
        "model": 'a"b',
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
        "data": [{"object": "embedding", "index": i, "embedding": [1.0, 1.0, 1.0]} for i in (0, 1)],
    }


def test_cosine_of_opposites_is_negative() -> None:
    query = np.array([3, 0], np.float32)
    documents = np.array([[2, 0], [-5, 0], [0, 1]], np.float32)
    np.testing.assert_allclose(cosines(query, documents), [1, -1, 0], atol=1e-7)
