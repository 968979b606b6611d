"""Every error a client can see, in one table, and the mapping of domain errors onto it."""

import math
import random
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from api.rate_headers import duration
from auth.errors import (
    AuthError,
    InvalidKey,
    KeyRefused,
    MissingKey,
    UnknownKey,
    UnknownProject,
)
from auth.limits.exceeded import LimitExceeded
from checkpoint.errors import (
    EmptyInput,
    InputError,
    InputTooLong,
    InvalidTokenId,
    QueryTooLong,
    UnknownPrompt,
)
from observability.metrics import NO_MODEL
from transport.messages import ErrorCode, JobError


class Case(NamedTuple):
    """One row of the table."""

    status: int
    type: str
    code: str | None
    should_retry: bool | None = None  # x-should-retry; None: the status says enough


_INVALID = "invalid_request_error"

CASES: dict[str, Case] = {
    "bad_http": Case(400, _INVALID, None),
    "bad_json": Case(400, _INVALID, None),
    "invalid_value": Case(400, _INVALID, None),
    "missing_parameter": Case(400, _INVALID, "missing_required_parameter"),
    "wrong_type": Case(400, _INVALID, "invalid_type"),
    "context_length": Case(400, _INVALID, "context_length_exceeded"),
    "too_many_tokens": Case(400, "max_tokens_per_request", "max_tokens_per_request"),
    "no_key": Case(401, _INVALID, None),
    "bad_key": Case(401, _INVALID, "invalid_api_key"),
    "missing_scope": Case(403, _INVALID, "insufficient_permissions"),
    "model_forbidden": Case(403, _INVALID, "model_not_found"),
    "unknown_model": Case(404, _INVALID, "model_not_found"),
    "unknown_url": Case(404, _INVALID, None),
    "unknown_key": Case(404, _INVALID, "not_found"),
    "wrong_method": Case(405, _INVALID, "method_not_supported"),
    "body_timeout": Case(408, _INVALID, None),
    "body_too_large": Case(413, _INVALID, None),
    "not_json": Case(415, _INVALID, "unsupported_content_type"),
    "content_encoding": Case(415, _INVALID, "unsupported_content_encoding"),
    "request_rate": Case(429, "requests", "rate_limit_exceeded"),
    "token_rate": Case(429, "tokens", "rate_limit_exceeded"),
    "request_too_large": Case(429, "tokens", "rate_limit_exceeded", should_retry=False),
    "quota_spent": Case(429, "insufficient_quota", "insufficient_quota", should_retry=False),
    "headers_too_large": Case(431, _INVALID, None),
    "internal": Case(500, "server_error", None),
    "engine_failed": Case(500, "server_error", "engine_failed"),
    "non_finite": Case(500, "server_error", "non_finite_output"),
    "poison": Case(500, "server_error", "poison_job", should_retry=False),
    "overloaded": Case(503, "service_unavailable_error", "server_is_overloaded"),
    "store_away": Case(503, "service_unavailable_error", "store_unavailable"),
    "not_ready": Case(503, "service_unavailable_error", "model_not_ready"),
    "deadline": Case(504, "server_error", "deadline_exceeded", should_retry=False),
}

INTERNAL_MESSAGE = "The server had an error while processing your request. Sorry about that!"
MAX_RETRY_AFTER_S = 60.0  # some SDKs ignore a longer one and retry at once


@dataclass(eq=False)
class ApiError(Exception):
    """An error answer. `case` names a row of CASES; the message never holds an input's text."""

    case: str
    message: str
    param: str | None = None
    retry_after_s: float | None = None

    @property
    def row(self) -> Case:
        return CASES[self.case]

    def body(self) -> bytes:
        """OpenAI's envelope; `message` and `detail` beside it for Jina and Voyage clients."""
        error = {
            "message": self.message,
            "type": self.row.type,
            "param": self.param,
            "code": self.row.code,
        }
        return orjson.dumps({"error": error, "message": self.message, "detail": self.message})

    def headers(self) -> dict[str, str]:
        headers = {}
        if self.row.status == 408:
            headers["connection"] = "close"  # what else comes in would be the rest of the body
        if self.retry_after_s is not None:
            wait_s = min(self.retry_after_s, MAX_RETRY_AFTER_S)
            headers["retry-after"] = str(max(1, math.ceil(wait_s)))
            headers["retry-after-ms"] = str(max(1, math.ceil(wait_s * 1000)))
        if self.row.should_retry is not None:
            headers["x-should-retry"] = str(self.row.should_retry).lower()
        return headers


def unknown_model(model: str) -> ApiError:
    return ApiError("unknown_model", _no_model(model), param="model")


def forbidden_model(model: str | None) -> ApiError:
    """`model` is the name that was asked for: the id behind an alias is none of this caller's."""
    if model is None:
        message = "You do not have access to the model that answers requests without one."
    else:
        message = _no_model(model)
    return ApiError("model_forbidden", message, param="model")


def _no_model(model: str) -> str:
    shown = model if len(model) <= 200 else model[:200] + "…"
    return f"The model `{shown}` does not exist or you do not have access to it."


def from_auth(error: MissingKey | InvalidKey) -> ApiError:
    """One body for no key, one for anything wrong with a key, without any part of it."""
    if isinstance(error, MissingKey):
        return ApiError(
            "no_key",
            "You didn't provide an API key. You need to provide your API key in an Authorization "
            "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
    return ApiError("bad_key", "Incorrect API key provided.")


def from_store(error: AuthError) -> ApiError:
    """How the store of keys refused: an unknown key or project, a field, or all of it."""
    if isinstance(error, UnknownKey | UnknownProject):
        return ApiError("unknown_key", _sentence(error))
    if isinstance(error, KeyRefused):
        if error.field is None:
            return ApiError("invalid_value", _sentence(error))
        message = f"Invalid value for '{error.field}': {error.reason}."
        return ApiError("invalid_value", message, error.field)
    # What the database says of itself is for the operator alone.
    message = "The database of the keys does not answer, please try again later."
    return ApiError("store_away", message, retry_after_s=1.0)


def _sentence(error: AuthError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


_RATES = {
    "rpm": ("request_rate", "requests per min (RPM)"),
    "tpm": ("token_rate", "tokens per min (TPM)"),
    "concurrency": ("request_rate", "concurrent requests"),
}


def from_limit(error: LimitExceeded, model: str) -> ApiError:
    """A rate says when to come again; a budget, and what exceeds its limit alone, not to."""
    whose = "API key" if error.holder_kind == "key" else "project"
    if error.limit not in _RATES:
        period = "day" if error.limit == "daily" else "month"
        message = (
            f"You exceeded the quota of your {whose}: {error.bound} tokens a {period} (UTC), used "
            f"{error.used}, requested {error.requested}."
        )
        if error.never:
            message += " It can never fit."
        return ApiError("quota_spent", message)
    case, unit = _RATES[error.limit]
    served = "" if model == NO_MODEL else f" for {model}"
    if error.never:
        message = (
            f"Request too large{served} in your {whose} on {unit}: Limit {error.bound}, at most "
            f"{error.most} at once, Requested {error.requested}. It can never fit."
        )
        return ApiError("request_too_large", message)
    message = (
        f"Rate limit reached{served} in your {whose} on {unit}: Limit {error.bound}, Used "
        f"{error.used}, Requested {error.requested}. Please try again in {duration(error.wait_s)}."
    )
    return ApiError(case, message, retry_after_s=error.wait_s)


def from_input(error: InputError, param: str) -> ApiError:
    """`param` is the request's field; the index is added where the field is a list."""
    if isinstance(error, QueryTooLong):
        return ApiError("context_length", _too_long(error.tokens, error.limit), param="query")
    param = f"{param}[{error.index}]"
    if isinstance(error, InputTooLong):
        return ApiError("context_length", _too_long(error.tokens, error.limit), param)
    if isinstance(error, EmptyInput):
        return ApiError("invalid_value", f"'{param}' is empty: it gives no token.", param)
    if isinstance(error, InvalidTokenId):
        message = f"'{param}' holds an invalid token id at position {error.position}."
        return ApiError("invalid_value", message, param)
    return ApiError("invalid_value", f"'{param}' is not valid Unicode text.", param)


def from_prompt(error: UnknownPrompt) -> ApiError:
    """`param` is the field at fault; a use has several names, of which input_type is the first."""
    param = "input_type" if error.field == "use" else error.field
    known = f" Supported values: {list(error.choices)}." if error.choices else ""
    return ApiError("invalid_value", f"Invalid value for '{param}' of this model.{known}", param)


def _too_long(tokens: int | None, limit: int) -> str:
    requested = "far more" if tokens is None else f"{tokens} tokens"
    return (
        f"This model's maximum context length is {limit} tokens, however you requested "
        f"{requested}. Please reduce your prompt, or ask for truncation with `truncate: true`."
    )


_JOB_CASES: dict[ErrorCode, str] = {
    "overloaded": "overloaded",
    "deadline": "deadline",
    "cancelled": "deadline",  # only its own client cancels a job, and that one reads no answer
    "not_ready": "not_ready",
    "poison": "poison",
    "non_finite": "non_finite",
    "engine_failed": "engine_failed",
    "invalid": "invalid_value",
}

_JOB_MESSAGES = {
    "overloaded": "The engine is currently overloaded, please try again later.",
    "deadline": "The request's deadline passed before it could be answered.",
    "not_ready": "The model has no live worker at the moment, please try again later.",
    "poison": "This input made workers fail repeatedly and will not be tried again.",
    "non_finite": "The model's output for this input is not finite.",
    "engine_failed": INTERNAL_MESSAGE,
    "invalid_value": "The model cannot answer this kind of request.",
}


def from_job(error: JobError) -> ApiError:
    case = _JOB_CASES[error.code]
    retry_after_s = error.retry_after_s
    if CASES[case].status == 503:
        # Spread, or all that were refused together would come back together.
        retry_after_s = max(retry_after_s or 0.0, 1.0) * random.uniform(1.0, 1.25)  # noqa: S311
    return ApiError(case, _JOB_MESSAGES[case], retry_after_s=retry_after_s)


def from_failed_sequence(code: ErrorCode, param: str) -> ApiError:
    """One sequence of a request failed, so the request does; `param` names it."""
    case = _JOB_CASES[code]
    return ApiError(case, _JOB_MESSAGES[case], param=param)
