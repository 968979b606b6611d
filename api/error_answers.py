"""What an app answers instead of FastAPI's own errors: the one envelope, never a 422."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from api.context import context_of
from api.errors import ApiError
from api.middleware import error_response


def answer_errors(app: FastAPI) -> None:
    app.add_exception_handler(ApiError, api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(ClientDisconnect, client_left)


def api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101  registered for this class
    context_of(request).error_type = error.row.type
    return error_response(error)


def _http_error(request: Request, error: Exception) -> Response:
    """Starlette raises these for URLs and methods alone."""
    assert isinstance(error, HTTPException)  # noqa: S101  registered for this class
    method, path = request.method, request.url.path[:200]
    if error.status_code == 405:
        message = (
            f"Not allowed to {method} on {path}. "
            "(HINT: Perhaps you meant to use a different HTTP method?)"
        )
        context_of(request).headers |= dict(error.headers or {})  # Allow
        return api_error(request, ApiError("wrong_method", message))
    message = f"Invalid URL ({method} {path})"
    return api_error(request, ApiError("unknown_url", message + _hint(path)))


def _hint(path: str) -> str:
    """The URL that was probably meant: base URLs are easily given with a part too many."""
    last = path.rsplit("/", 1)[-1]
    known = ("embeddings", "rerank", "score", "models")
    return f". Did you mean /v1/{last}?" if last in known else ""


def _validation_error(request: Request, _: Exception) -> Response:
    return api_error(request, ApiError("invalid_value", "The request is not valid."))


def client_left(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # for the metrics: nobody reads it
