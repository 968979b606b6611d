"""The public app: its routes, and the middleware around them."""

from fastapi import FastAPI

from api.access import check_routes
from api.error_answers import answer_errors
from api.middleware import RequestMiddleware
from api.routes import embeddings, health, models, rerank
from api.service import Service
from auth.authenticator import Authenticator


def create_app(service: Service, authenticator: Authenticator, version: str) -> FastAPI:
    """Closed by default: a request without a valid key reaches no route that is not listed open.

    Raises `UnguardedRoute` for a route of which `api.access` does not say who may call it.
    """
    app = FastAPI(
        title="Florilege",
        version=version,
        docs_url=None,  # they load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    for route in (embeddings, rerank, models, health):
        app.include_router(route.router)
    check_routes(app.routes)
    answer_errors(app)
    app.add_middleware(
        RequestMiddleware,
        authenticator=authenticator,
        metrics=service.metrics,
        seen=service.usage.seen,
        look=service.quotas.look,
    )
    return app
