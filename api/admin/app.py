"""The admin port's app: its routes, and the same middleware and errors as the public one's."""

from fastapi import FastAPI

from api.access import check_routes
from api.admin import audit, keys, projects, usage
from api.admin.administration import Administration
from api.admin.errors import ANSWERED, answer_refusal
from api.callers import Callers
from api.error_answers import answer_errors
from api.middleware import RequestMiddleware
from auth.authenticator import Authenticator
from auth.limits.quota import UNLIMITED, Allowance
from auth.principal import Principal
from observability.metrics import Metrics


def create_admin_app(
    administration: Administration, authenticator: Authenticator, metrics: Metrics, version: str
) -> FastAPI:
    """Every route asks for the scope `admin`, which nobody has before a key of that scope is made.

    Raises `UnguardedRoute` for a route of which `api.access` does not say who may call it.
    """
    app = FastAPI(
        title="Florilege administration",
        version=version,
        openapi_url=None,  # docs/api.md describes it
        redirect_slashes=False,
    )
    app.state.administration = administration
    for route in (keys, projects, audit, usage):
        app.include_router(route.router)
    check_routes(app.routes)
    answer_errors(app)
    for refusal in ANSWERED:
        app.add_exception_handler(refusal, answer_refusal)
    callers = Callers(authenticator, administration.seen, _unlimited)
    app.add_middleware(RequestMiddleware, callers=callers, metrics=metrics)
    return app


async def _unlimited(_: Principal) -> Allowance:
    """Nothing that is asked of this port counts towards limits."""
    return UNLIMITED
