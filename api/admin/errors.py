"""What the store of keys may refuse on the admin port, as the callers are told it."""

from starlette.requests import Request
from starlette.responses import Response

from api.error_answers import api_error
from api.errors import from_store
from auth.errors import AuthError, KeyRefused, StoreUnavailable, UnknownKey, UnknownProject

# Any other error of `auth`, a missing pepper say, is an operator's to mend: 500, and in the log.
ANSWERED: tuple[type[AuthError], ...] = (UnknownKey, UnknownProject, KeyRefused, StoreUnavailable)


def answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, ANSWERED)  # noqa: S101  registered for these
    return api_error(request, from_store(error))
