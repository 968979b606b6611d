"""What the routes share: the gateway, and the steps every scored or embedded request takes."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.catalog import NamedModel, UnknownModel
from api.context import RequestContext, context_of
from api.deadline import asked_lane, timeout_s
from api.disconnect import run_while_connected
from api.errors import ApiError, from_job, unknown_model
from api.gateway import Gateway
from api.request_body import BodyLimits, read_object
from auth.principal import Principal
from checkpoint.spec import ModelSpec
from observability.health import Health
from observability.metrics import Metrics
from transport.messages import JobError

Work = Callable[["Service", dict[str, Any], RequestContext], Coroutine[Any, Any, bytes]]


@dataclass(frozen=True, eq=False)
class Service:
    """Held by the app's state; every route reads it from there."""

    gateway: Gateway
    health: Health
    metrics: Metrics
    created: int  # when this process began to serve, as /v1/models tells

    async def answer(self, request: Request, scope: str, work: Work) -> Response:
        """Read a body, do the work while the client stays, and give its JSON back.

        Raises:
            ApiError: whatever went wrong, in the caller's contract.
        """
        context = context_of(request)
        config = self.gateway.config
        require_scope(context, scope)
        context.input_type = request.headers.get("x-input-type")
        context.lane = asked_lane(request.headers, context.principal.lane)
        limit_s = timeout_s(request.headers, config.timeout_s, config.max_timeout_s)
        context.deadline_s = context.started_s + limit_s
        body = await read_object(request, self._body_limits(context))
        try:
            content = await run_while_connected(request, work(self, body, context))
        except JobError as error:
            raise from_job(error) from None
        context.headers["x-florilege-truncated"] = str(context.truncated)
        return Response(content, media_type="application/json")

    def _body_limits(self, context: RequestContext) -> BodyLimits:
        config = self.gateway.config
        return BodyLimits(
            max_bytes=config.max_body_bytes,
            # A token takes an item at most; as many again for all that is not tokens.
            max_items=2 * config.max_request_tokens,
            timeout_s=min(config.body_timeout_s, context.left_s()),
        )

    async def resolve(self, name: str, context: RequestContext) -> NamedModel:
        """The model of that id or alias, if the caller may use it. Raises ApiError."""
        try:
            named = await self.gateway.catalog.find(name)
        except UnknownModel:
            raise unknown_model(name) from None
        self.use(named.spec, context)
        return named

    def use(self, spec: ModelSpec, context: RequestContext) -> ModelSpec:
        if not may_use(context.principal, spec):
            raise ApiError("model_forbidden", unknown_model(spec.id).message, param="model")
        context.model = spec.id
        context.headers["x-florilege-dtype"] = spec.dtype
        return spec


def may_use(principal: Principal, spec: ModelSpec) -> bool:
    """A key may name a model by its id or by an alias."""
    return any(principal.may_use(name) for name in (spec.id, *spec.aliases))


def require_scope(context: RequestContext, scope: str) -> None:
    if not context.principal.may(scope):
        message = f"You have insufficient permissions for this operation. Missing scope: {scope}."
        raise ApiError("missing_scope", message)


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service
