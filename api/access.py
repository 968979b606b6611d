"""Who calls, and what each route asks of them: a few paths are open, all others have their row."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fastapi.routing import APIRoute, iter_route_contexts
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from api.context import context_of
from api.errors import ApiError, from_auth
from auth.authenticator import Authenticator
from auth.errors import InvalidKey, MissingKey
from auth.principal import ANONYMOUS, Principal

# Everything else is closed, routes to come included.
OPEN_PATHS = frozenset({"/health/live", "/health/ready"})

ANY_KEY = None  # in the place of a scope: whoever may call at all

# What the key of a caller must have, by the route's template. An app with a route that is neither
# here nor open is not made.
SCOPES: Mapping[str, str | None] = {
    "/v1/embeddings": "embed",
    "/embeddings": "embed",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/rerank": "rerank",
    "/v1/score": "rerank",
    "/score": "rerank",
    "/v1/models": ANY_KEY,
    "/models": ANY_KEY,
    "/v1/models/{model_id:path}": ANY_KEY,
    "/models/{model_id:path}": ANY_KEY,
    "/openapi.json": ANY_KEY,
    "/v1/admin/keys": "admin",
    "/v1/admin/keys/{kid}": "admin",
    "/v1/admin/keys/{kid}/rotate": "admin",
    "/v1/admin/keys/{kid}/revoke": "admin",
    "/v1/admin/keys/{kid}/limits": "admin",
    "/v1/admin/projects": "admin",
    "/v1/admin/projects/{name:path}/limits": "admin",
    "/v1/admin/audit": "admin",
    "/v1/organization/usage/embeddings": "admin",
}


class UnguardedRoute(Exception):
    """A route of which nobody said who may call it, or that would not ask for it."""


class ScopedRoute(APIRoute):
    """Asks for the scope of its row before its handler sees the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            self.ask(request)
            return await handle(request)

        return guarded

    def ask(self, request: Request) -> None:
        """For the scope. Raises ApiError 403."""
        scope = SCOPES.get(self.path)
        if scope is not None:  # else any key; of a path without a row `check_routes` makes no app
            require_scope(context_of(request).principal, scope)


def check_routes(routes: Sequence[BaseRoute]) -> None:
    """Raises `UnguardedRoute` unless every route is open, or asks for what its row says."""
    for context in iter_route_contexts(routes):
        path = context.path
        if path in OPEN_PATHS:
            continue
        if path is None or path not in SCOPES:
            raise UnguardedRoute(f"{path}: neither open nor in SCOPES")
        route = context.original_route
        # Of a route that is included under a prefix the guard would look for another row.
        guarded = isinstance(route, ScopedRoute) and route.path == path
        if SCOPES[path] is not ANY_KEY and not guarded:
            raise UnguardedRoute(f"{path}: would not ask for its scope")


def authenticate(authenticator: Authenticator, path: str, headers: Mapping[str, str]) -> Principal:
    """The caller of a request. Raises ApiError 401."""
    if path in OPEN_PATHS:
        return ANONYMOUS
    try:
        return authenticator.authenticate(presented_key(headers))
    except (MissingKey, InvalidKey) as error:
        raise from_auth(error) from None


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The key in `Authorization: Bearer`, else in `api-key` or `x-api-key`."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("api-key", "").strip() or headers.get("x-api-key", "").strip() or None


def require_scope(principal: Principal, scope: str) -> None:
    """Raises ApiError 403."""
    if not principal.may(scope):
        message = f"You have insufficient permissions for this operation. Missing scope: {scope}."
        raise ApiError("missing_scope", message)
