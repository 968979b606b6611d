"""Every route of every app, with no key, a wrong one, and a key of each scope alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from admin_side import AdminSide, running_admin
from fake_service import EMBED, FakeService
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.responses import Response

from api.access import OPEN_PATHS, SCOPES, ScopedRoute, UnguardedRoute, check_routes
from auth.record import SCOPES as ALL_SCOPES
from auth.record import NewKey

# The truth, written out once more: what the key of a caller must have, by port and template.
OPEN = {"/health/live", "/health/ready"}
PUBLIC = {
    "/v1/embeddings": "embed",
    "/embeddings": "embed",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/rerank": "rerank",
    "/v1/score": "rerank",
    "/score": "rerank",
    "/v1/models": "any",
    "/models": "any",
    "/v1/models/{model_id:path}": "any",
    "/models/{model_id:path}": "any",
    "/openapi.json": "any",
}
ADMINISTRATIVE = {
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

# What any path parameter may be called: the routes are to be found, not to succeed.
PLACES = {"{model_id:path}": EMBED.id, "{kid}": "000000000000", "{name:path}": "shop"}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[AdminSide]:
    async with running_admin(tmp_path) as side:
        yield side


@pytest.fixture
async def keys(admin: AdminSide, service: FakeService) -> dict[str, str]:
    """A key of each scope and no other; both apps know them."""
    made = {}
    for scope in sorted(ALL_SCOPES):
        new = NewKey(name=scope, scopes=frozenset({scope}))
        made[scope], _ = await admin.keys.create(new, admin.read_peppers())
    await admin.watch.refresh()
    service.authenticator.authenticate = admin.authenticator.authenticate  # type: ignore[method-assign]
    return made


def routes_of(app: FastAPI) -> list[tuple[str, str]]:
    """Methods and templates."""
    return sorted(
        (method, context.path or "")
        for context in iter_route_contexts(app.routes)
        for method in getattr(context.original_route, "methods", None) or {"GET"}
    )


async def ask(client: httpx.AsyncClient, method: str, path: str, key: str | None) -> httpx.Response:
    for place, value in PLACES.items():
        path = path.replace(place, value)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return await client.request(method, path, headers=headers)


def code_of(response: httpx.Response) -> str | None:
    code: str | None = response.json()["error"]["code"]
    return code


async def check(
    client: httpx.AsyncClient, app: FastAPI, scopes: dict[str, str], keys: dict[str, str]
) -> set[str]:
    """Hold an app to `scopes`, by template. Returns the templates that were asked for."""
    for method, path in routes_of(app):
        where = f"{method} {path}"
        if path in OPEN:
            for key in (None, "sk-wrong", *keys.values()):
                assert (await ask(client, method, path, key)).status_code == 200, where
            continue
        assert (await ask(client, method, path, None)).status_code == 401, where
        if method != "HEAD":
            assert code_of(await ask(client, method, path, None)) is None, where
            assert code_of(await ask(client, method, path, "sk-wrong")) == "invalid_api_key", where
        for scope, key in keys.items():
            response = await ask(client, method, path, key)
            if scopes[path] in ("any", scope):
                assert response.status_code not in (401, 403, 405), (where, scope)
            else:
                assert response.status_code == 403, (where, scope)
                assert code_of(response) == "insufficient_permissions", (where, scope)
    return {path for _, path in routes_of(app)}


async def test_every_route_asks_for_what_its_row_says(
    service: FakeService, admin: AdminSide, keys: dict[str, str]
) -> None:
    # And there is no route, and no row, but those.
    assert await check(service.client, service.app, PUBLIC, keys) == OPEN | PUBLIC.keys()
    asked = await check(admin.stranger, admin.app, ADMINISTRATIVE, keys)
    assert asked == ADMINISTRATIVE.keys()
    assert OPEN_PATHS == OPEN
    assert SCOPES.keys() == PUBLIC.keys() | ADMINISTRATIVE.keys()


async def test_paths_that_are_no_route_are_closed_on_both_ports(
    service: FakeService, admin: AdminSide, keys: dict[str, str]
) -> None:
    for client in (service.client, admin.stranger):
        for path in ("/", "/v1/admin", "/v1/admin/keys/a/b", "/docs", "/redoc"):
            assert (await ask(client, "GET", path, None)).status_code == 401, path
            assert (await ask(client, "GET", path, keys["admin"])).status_code == 404, path


async def test_admin_port_tells_health_and_metrics_to_anyone(admin: AdminSide) -> None:
    for path in ("/health/live", "/health/ready", "/metrics", "/metrics/"):
        assert (await admin.stranger.get(path)).status_code == 200, path
    assert (await admin.stranger.post("/metrics")).status_code == 405
    await admin.client.get("/v1/admin/keys/")
    await admin.client.get("/v1/admin/keys/c0ffeec0ffee")
    metrics = (await admin.stranger.get("/metrics")).text
    assert 'route="/v1/admin/keys/{kid}"' in metrics
    assert "c0ffeec0ffee" not in metrics


async def test_server_without_keys_has_no_administrator(tmp_path: Path) -> None:
    side = AdminSide(tmp_path)
    for key in (None, "sk-anything"):
        response = await ask(side.stranger, "POST", "/v1/admin/keys", key)
        assert (response.status_code, code_of(response)) == (403, "insufficient_permissions")
    await side.stop()


async def nothing() -> Response:
    return Response()


def app_with(path: str, route_class: type[APIRoute] = ScopedRoute, prefix: str = "") -> FastAPI:
    app = FastAPI(openapi_url=None)
    router = APIRouter(route_class=route_class)
    router.add_api_route(path, nothing)
    app.include_router(router, prefix=prefix)
    return app


@pytest.mark.parametrize(
    "unguarded",
    [
        {"path": "/v1/new"},  # nobody said who may call it
        {"path": "/v1/embeddings", "route_class": APIRoute},  # it would not ask
        {"path": "/embeddings", "prefix": "/v1"},  # it would ask for another row
    ],
)
def test_app_with_an_unguarded_route_is_not_made(unguarded: dict[str, Any]) -> None:
    with pytest.raises(UnguardedRoute):
        check_routes(app_with(**unguarded).routes)
    check_routes(app_with("/v1/embeddings").routes)
    check_routes(app_with("/health/live", APIRoute).routes)


def test_mounted_app_and_fastapis_pages_are_not_let_by() -> None:
    app = FastAPI(openapi_url=None)
    app.mount("/v1/other", FastAPI())
    for routes in (app.routes, FastAPI().routes):
        with pytest.raises(UnguardedRoute):
            check_routes(routes)
