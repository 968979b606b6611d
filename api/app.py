"""The public app: its routes, and the middleware around them."""

from fastapi import FastAPI

from api.access import check_routes
from api.callers import Callers
from api.direct_routes import DirectRoutes
from api.error_answers import answer_errors
from api.middleware import RequestMiddleware
from api.routes import embeddings, health, models, rerank
from api.service import Service
from auth.authenticator import Authenticator
from observability.tracing import UNTRACED, Tracing


def create_app(
    service: Service, authenticator: Authenticator, version: str, tracing: Tracing = UNTRACED
) -> FastAPI:
    """Closed by default: a request without a valid key reaches no route that is not listed open.

    Raises `UnguardedRoute` for a route of which `api.access` does not say who may call it.
    """
    app = FastAPI(
        title="Florilege",
        version=version,
        docs_url=None,  # they load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        # Ours say no more than an access line does, see observability/tracing.py.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    for route in (embeddings, rerank, models, health):
        app.include_router(route.router)
    check_routes(app.routes)
    answer_errors(app)
    app.add_middleware(DirectRoutes, routes=[*embeddings.router.routes, *rerank.router.routes])
    callers = Callers(authenticator, service.usage.seen, service.quotas.look)
    app.add_middleware(RequestMiddleware, callers=callers, metrics=service.metrics, tracing=tracing)
    return app
