"""How the store of keys refuses, in rows of the table of `api.errors`."""

from starlette.requests import Request
from starlette.responses import Response

from api.error_answers import api_error
from api.errors import ApiError
from auth.errors import AuthError, KeyRefused, StoreUnavailable, UnknownKey, UnknownProject

# Any other error of `auth`, a missing pepper say, is an operator's to mend: 500, and in the log.
ANSWERED: tuple[type[AuthError], ...] = (UnknownKey, UnknownProject, KeyRefused, StoreUnavailable)


def answer_refusal(request: Request, error: Exception) -> Response:
    return api_error(request, _from_store(error))


def _from_store(error: Exception) -> ApiError:
    if isinstance(error, UnknownKey | UnknownProject):
        return ApiError("unknown_url", f"{_sentence(error)}.")
    if isinstance(error, KeyRefused):
        return ApiError("invalid_value", f"{_sentence(error)}.")
    # What the database says of itself is for the operator alone.
    message = "The database of the keys does not answer, please try again later."
    return ApiError("overloaded", message, retry_after_s=1.0)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
