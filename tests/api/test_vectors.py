"""Rows finished and encoded exactly."""

import base64
import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from transport_jobs import make_spec

from api.vectors import VectorForm, cosines, embeddings_body, finish
from checkpoint.spec import ModelSpec

rows_of_any_size = npst.arrays(
    np.float32, (3, 8), elements=st.floats(-1000, 1000, width=32, allow_subnormal=False)
)


def spec(**changes: Any) -> ModelSpec:
    return make_spec(**({"calibration": None, "dim": 8} | changes))


@given(rows_of_any_size, st.sampled_from([None, 1, 4, 8]), st.booleans())
def test_truncation_comes_before_normalisation(
    rows: np.ndarray, dimensions: int | None, normalize: bool
) -> None:
    finished = finish(rows, spec(), VectorForm(dimensions, normalize))
    expected = rows[:, :dimensions].astype(np.float64)
    if normalize:
        expected = expected / np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(finished, expected, rtol=1e-5, atol=1e-7)
    assert finished.dtype == np.dtype("<f4")
    assert finished.flags.c_contiguous


def test_rows_are_normalised_as_the_model_says_unless_the_request_does() -> None:
    rows = np.array([[3, 4, 0, 0, 0, 0, 0, 0]], np.float32)
    for normalizes, asked, length in [(True, None, 1), (True, False, 5), (False, True, 1)]:
        row = finish(rows, spec(normalizes=normalizes), VectorForm(normalize=asked))[0]
        np.testing.assert_allclose(np.linalg.norm(row), length, rtol=1e-6)


def test_quantisation_comes_last() -> None:
    rows = np.array([[3, 4, 1000, 0, 0, 0, 0, 0]], np.float32)
    finished = finish(rows, spec(normalizes=True), VectorForm(2, dtype="int8"))
    np.testing.assert_array_equal(finished, [[95, 127]])


def test_ranges_hold_only_for_rows_as_they_were_measured() -> None:
    calibrated = spec(calibration=((-1.0, 1.0),) * 8, normalizes=True)
    rows = np.array([[30, 40, 0, 0, 0, 0, 0, 0]], np.float32)
    as_measured = finish(rows, calibrated, VectorForm(dtype="int8"))
    cut = finish(rows, calibrated, VectorForm(2, dtype="int8"))
    raw = finish(rows, calibrated, VectorForm(normalize=False, dtype="int8"))
    np.testing.assert_array_equal(as_measured[0, :3], [76, 101, -1])
    np.testing.assert_array_equal(cut, [[95, 127]])
    np.testing.assert_array_equal(raw[0, :3], [95, 127, 0])


def test_models_own_quantizer_sees_the_raw_row() -> None:
    rows = np.array([[0.5, -2, 0, 0, 0, 0, 0, 0]], np.float32)
    own = spec(quantizer="tanh_int8")
    np.testing.assert_array_equal(finish(rows, own, VectorForm(2))[0], [59, -122])
    unit = finish(rows, own, VectorForm(2, normalize=True))[0]
    np.testing.assert_allclose(unit, np.array([59, -122]) / np.hypot(59, 122), rtol=1e-6)


def test_zero_row_stays_finite() -> None:
    assert np.isfinite(finish(np.zeros((1, 8), np.float32), spec(), VectorForm())).all()


@given(rows_of_any_size)
def test_base64_is_little_endian_float32_of_exactly_the_rows(rows: np.ndarray) -> None:
    body = json.loads(embeddings_body(rows, True, "m", 9))
    for row, item in zip(rows, body["data"], strict=True):
        data = base64.b64decode(item["embedding"], validate=True)
        assert len(data) == 4 * 8
        np.testing.assert_array_equal(np.frombuffer(data, "<f4"), row)


@given(npst.arrays(st.sampled_from([np.int8, np.uint8]), (2, 5)))
def test_base64_of_integers_is_one_byte_each(rows: np.ndarray) -> None:
    body = json.loads(embeddings_body(rows, True, "m", 9))
    read = [np.frombuffer(base64.b64decode(item["embedding"]), rows.dtype) for item in body["data"]]
    np.testing.assert_array_equal(read, rows)
    plain = json.loads(embeddings_body(rows, False, "m", 9))
    assert [item["embedding"] for item in plain["data"]] == rows.tolist()


@given(rows_of_any_size)
def test_floats_read_back_to_the_same_float32(rows: np.ndarray) -> None:
    body = json.loads(embeddings_body(rows, False, "m", 9))
    read = np.array([item["embedding"] for item in body["data"]], np.float32)
    np.testing.assert_array_equal(read, rows)


def test_body_has_every_key_that_clients_need() -> None:
    body = json.loads(embeddings_body(np.ones((2, 3), np.float32), False, 'a"b', 9))
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
