"""The wire format: what goes in comes out, and nothing else is taken for a message."""

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_jobs import make_job, make_result

from transport.messages import (
    Job,
    JobError,
    JobResult,
    WireError,
    decode_outcome,
    encode_outcome,
)


def assert_same(left: Any, right: Any) -> None:
    for field in dataclasses.fields(left):
        a, b = getattr(left, field.name), getattr(right, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b, field.name


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
    st.booleans(),
    st.booleans(),
    st.text(max_size=20),
)
def test_job_survives_the_wire(
    lengths: list[int], with_types: bool, with_spans: bool, variant: str
) -> None:
    variant = variant.encode("utf-8", "ignore").decode()
    job = make_job(
        tuple(lengths),
        type_ids=np.arange(sum(lengths)).astype(np.uint8) if with_types else None,
        spans=np.array([[0, 0, 1]], np.int32) if with_spans else None,
        variant=variant,
        kind="tokens",
        lane="bulk",
    )
    assert_same(Job.decode(job.encode()), job)


def test_result_survives_the_wire_with_its_failures() -> None:
    result = JobResult(
        job_id="j",
        row_offsets=np.array([0, 1, 1, 2], np.int32),
        rows=np.array([[1.5, -0.0], [np.inf, 3]], np.float32),
        indices=np.array([4, 5], np.int32),
        failed=((1, "non_finite"),),
        timings={"infer": 0.25},
        worker="w",
        dtype="bfloat16",
    )
    job_id, outcome = decode_outcome(encode_outcome("j", result))
    assert job_id == "j"
    assert_same(outcome, result)


def test_error_survives_the_wire() -> None:
    job_id, outcome = decode_outcome(encode_outcome("j", JobError("poison", retry_after_s=1.0)))
    assert isinstance(outcome, JobError)
    assert (job_id, outcome.code, outcome.retry_after_s) == ("j", "poison", 1.0)


def test_arrays_are_aligned_and_not_copied() -> None:
    job = Job.decode(make_job((3, 4), type_ids=np.zeros(7, np.uint8), job_id="x").encode())
    assert job.input_ids.flags.aligned
    assert job.input_ids.base is not None
    assert not job.input_ids.flags.writeable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "chat"),
        ("lane", "fast"),
        ("lengths", np.array([], np.int32)),
        ("lengths", np.array([0, 3], np.int32)),
        ("lengths", np.array([4], np.int32)),
        ("type_ids", np.zeros(2, np.uint8)),
    ],
)
def test_job_that_contradicts_itself_is_refused(name: str, value: Any) -> None:
    with pytest.raises(WireError):
        Job.decode(dataclasses.replace(make_job(), **{name: value}).encode())


def test_message_of_another_version_is_refused() -> None:
    data = make_job().encode()
    with pytest.raises(WireError):
        Job.decode(data.replace(b'"version":1', b'"version":2'))
    with pytest.raises(WireError):
        JobResult.decode(data)
    with pytest.raises(WireError):
        Job.decode(data.replace(b'"variant"', b'"variont"'))


@pytest.mark.parametrize("cut", [0, 3, 4, 40, -1])
def test_truncated_frame_is_refused(cut: int) -> None:
    with pytest.raises(WireError):
        Job.decode(make_job().encode()[:cut])


@given(st.binary(max_size=200))
def test_no_bytes_are_taken_for_a_message(data: bytes) -> None:
    with pytest.raises(WireError):
        Job.decode(data)
    with pytest.raises(WireError):
        decode_outcome(data)


@given(st.data())
def test_corrupted_frame_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    frame = bytearray(make_result(make_job((2, 3))).encode())
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    try:
        decode_outcome(bytes(frame))
    except WireError:
        return


def test_pickle_is_not_a_message() -> None:
    with pytest.raises(WireError):
        decode_outcome(pickle.dumps({"job_id": "j"}))
