"""The routes that compute, answered without FastAPI between them and the middleware around.

Matching, dependencies and exit stacks take more than all else that a gateway does for one short
text, and these routes use none of them. FastAPI describes them still, and answers what it finds.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from api.access import ScopedRoute
from api.error_answers import api_error, client_left
from api.errors import ApiError

Message = MutableMapping[str, Any]


class DirectRoutes:
    """In pure ASGI: each `ScopedRoute` by its method and path; all else is the app's."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        """`routes`: their paths are whole, and their handlers take the request alone."""
        self._app = app
        self._routes = {
            (method, route.path): route
            for route in routes
            if isinstance(route, ScopedRoute)
            for method in route.methods or ()
        }

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        route = self._routes.get((scope.get("method", ""), scope.get("path", "")))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            route.ask(request)
            response = await route.endpoint(request)
        except ApiError as error:
            response = api_error(request, error)
        except ClientDisconnect as error:
            response = client_left(request, error)
        await response(scope, receive, send)
