"""The one wire format: frozen, versioned messages as a JSON header and raw little-endian arrays.

A frame is `<u4 header length> <JSON header, padded to 8 bytes> <arrays, one after another>`. The
header names each array's shape, so that decoding copies nothing and trusts nothing.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar, get_args

import numpy as np
import orjson
from numpy.typing import NDArray

WIRE_VERSION = 1

Kind = Literal["embed", "score", "tokens", "sparse"]
Lane = Literal["online", "bulk"]
ErrorCode = Literal[
    "overloaded",
    "deadline",
    "cancelled",
    "not_ready",
    "poison",
    "non_finite",
    "engine_failed",
    "invalid",
]
_KINDS, _LANES, _CODES = get_args(Kind), get_args(Lane), get_args(ErrorCode)
Arrays = Mapping[str, NDArray[Any]]
Message = TypeVar("Message")


class WireError(ValueError):
    """The bytes are not a message of this version. Says what is wrong, never what they hold."""


class OtherVersionError(WireError):
    """A message whole enough to tell its version, which is not ours: an upgrade is under way."""


class JobError(Exception):
    """A job failed as a whole. Travels as its code; never pickled."""

    def __init__(self, code: ErrorCode, *, retry_after_s: float | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, eq=False)
class Job:
    """One or more sequences of one model, small enough to run in one step."""

    job_id: str
    model: str
    kind: Kind
    input_ids: NDArray[np.int32]  # [T]
    lengths: NDArray[np.int32]  # [B], each at least 1, summing to T
    type_ids: NDArray[np.uint8] | None = None  # [T]
    spans: NDArray[np.int32] | None = None  # [S, 3]: sequence, start, end
    variant: str = ""  # adapter task
    lane: Lane = "online"
    budget_ms: int = 60_000  # time left to answer, from the moment of submission
    traceparent: str = ""

    @property
    def tokens(self) -> int:
        return int(self.input_ids.size)

    @property
    def sequences(self) -> int:
        return int(self.lengths.size)

    def encode(self) -> bytes:
        header = {
            "job_id": self.job_id,
            "model": self.model,
            "kind": self.kind,
            "variant": self.variant,
            "lane": self.lane,
            "budget_ms": self.budget_ms,
            "traceparent": self.traceparent,
        }
        arrays: dict[str, NDArray[Any]] = {"input_ids": self.input_ids, "lengths": self.lengths}
        if self.spans is not None:
            arrays["spans"] = self.spans
        if self.type_ids is not None:
            arrays["type_ids"] = self.type_ids
        return _encode_frame("job", header, arrays)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        header, offset = _header(data)
        arrays = _read_arrays("job", data, header, offset)
        for name, allowed in (("kind", _KINDS), ("lane", _LANES)):
            if header.get(name) not in allowed:
                raise WireError(f"unknown {name}")
        job = _build(cls, header, arrays)
        lengths = job.lengths.tolist()  # numpy takes longer to add up so few
        if not lengths or min(lengths) < 1:
            raise WireError("a job holds no sequence, or an empty one")
        if sum(lengths) != job.tokens:
            raise WireError("lengths do not sum to the tokens of the job")
        if job.type_ids is not None and job.type_ids.size != job.tokens:
            raise WireError("type_ids and input_ids differ in length")
        return job


@dataclass(frozen=True, eq=False)
class JobResult:
    """The rows of a job, in the order of its sequences. A failed sequence has no row."""

    job_id: str
    row_offsets: NDArray[np.int32]  # [B + 1]: sequence i has rows row_offsets[i]:row_offsets[i+1]
    rows: NDArray[np.float32]  # [N, D]: one a sequence; one a token (tokens); weights (sparse)
    indices: NDArray[np.int32] | None = None  # [N]: sparse only
    failed: tuple[tuple[int, ErrorCode], ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds by stage
    worker: str = ""
    dtype: str = "float32"  # what the engine computed in

    def encode(self) -> bytes:
        header = {
            "job_id": self.job_id,
            "failed": self.failed,
            "timings": dict(self.timings),
            "worker": self.worker,
            "dtype": self.dtype,
        }
        arrays: dict[str, NDArray[Any]] = {"row_offsets": self.row_offsets, "rows": self.rows}
        if self.indices is not None:
            arrays["indices"] = self.indices
        return _encode_frame("result", header, arrays)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        return cls._read(data, *_header(data))

    @classmethod
    def _read(cls, data: bytes, header: dict[str, Any], offset: int) -> Self:
        arrays = _read_arrays("result", data, header, offset)
        try:
            header["failed"] = tuple((int(i), _CODES[_CODES.index(c)]) for i, c in header["failed"])
        except (KeyError, TypeError, ValueError):
            raise WireError("failed names an unknown code") from None
        result = _build(cls, header, arrays)
        if not result.row_offsets.size or int(result.row_offsets[-1]) != result.rows.shape[0]:
            raise WireError("row_offsets do not end at the number of rows")
        return result


Outcome = JobResult | JobError


def encode_outcome(job_id: str, outcome: Outcome) -> bytes:
    if isinstance(outcome, JobResult):
        return outcome.encode()
    header = {
        "job_id": job_id,
        "code": outcome.code,
        "retry_after_s": outcome.retry_after_s,
    }
    return _encode_frame("error", header, {})


def decode_outcome(data: bytes) -> tuple[str, Outcome]:
    """The job's id and its result or error."""
    header, offset = _header(data)
    if header.get("type") != "error":
        result = JobResult._read(data, header, offset)
        return result.job_id, result
    _read_arrays("error", data, header, offset)
    if header.get("code") not in _CODES or not isinstance(header.get("job_id"), str):
        raise WireError("an error without a known code or a job id")
    return header["job_id"], JobError(header["code"], retry_after_s=header.get("retry_after_s"))


# Wide items come first in a frame, so that each array is aligned behind the padded header.
_ARRAYS: Mapping[str, tuple[np.dtype[Any], int]] = {  # dtype and dimensions
    "input_ids": (np.dtype("<i4"), 1),
    "lengths": (np.dtype("<i4"), 1),
    "spans": (np.dtype("<i4"), 2),
    "row_offsets": (np.dtype("<i4"), 1),
    "rows": (np.dtype("<f4"), 2),
    "indices": (np.dtype("<i4"), 1),
    "type_ids": (np.dtype("|u1"), 1),
}


def _encode_frame(kind: str, header: dict[str, Any], arrays: Arrays) -> bytes:
    header |= {
        "version": WIRE_VERSION,
        "type": kind,
        "arrays": {name: array.shape for name, array in arrays.items()},
    }
    head = orjson.dumps(header)
    head += b" " * (-(len(head) + 4) % 8)
    body = [np.ascontiguousarray(a, _ARRAYS[name][0]).data for name, a in arrays.items() if a.size]
    return b"".join([struct.pack("<I", len(head)), head, *body])


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < 4:
        raise WireError("too short for a header")
    end = 4 + struct.unpack_from("<I", data)[0]
    try:
        header = orjson.loads(memoryview(data)[4:end])
    except orjson.JSONDecodeError:
        raise WireError("the header is not JSON") from None
    if not isinstance(header, dict):
        raise WireError("the header is not an object")
    return header, end


def _read_arrays(
    kind: str, data: bytes, header: dict[str, Any], offset: int
) -> dict[str, NDArray[Any]]:
    """The arrays of a frame of that kind; their names, and the frame's, are taken from `header`."""
    version, found = header.pop("version", None), header.pop("type", None)
    if found == kind and type(version) is int and version != WIRE_VERSION:
        raise OtherVersionError(f"a {kind} of version {version}, not {WIRE_VERSION}")
    if found != kind or version != WIRE_VERSION:
        raise WireError(f"not a {kind} of version {WIRE_VERSION}")
    arrays = {}
    shapes = header.pop("arrays", None)
    if not isinstance(shapes, dict):
        raise WireError("the header names no arrays")
    for name, shape in shapes.items():
        dtype, dimensions = _ARRAYS.get(name, (None, 0))
        if dtype is None or type(shape) is not list or len(shape) != dimensions:
            raise WireError("an array of unknown name or shape")
        count = 1
        for length in shape:
            if type(length) is not int or not 0 <= length < 2**31:
                raise WireError("an array of unknown name or shape")
            count *= length
        if offset + count * dtype.itemsize > len(data):
            raise WireError("the frame ends inside an array")
        array = np.frombuffer(data, dtype, count, offset)
        arrays[name] = array if dimensions == 1 else array.reshape(shape)
        offset += count * dtype.itemsize
    return arrays


def _build(cls: type[Message], header: dict[str, Any], arrays: Arrays) -> Message:
    try:
        return cls(**header, **arrays)
    except TypeError:
        raise WireError(f"fields of another version of {cls.__name__}") from None
