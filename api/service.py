"""What the routes share: the gateway, and the steps every scored or embedded request takes."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.catalog import NamedModel, UnknownModel
from api.context import RequestContext, context_of
from api.deadline import asked_lane, timeout_s
from api.disconnect import run_while_connected
from api.errors import ApiError, forbidden_model, from_job, from_limit, unknown_model
from api.gateway import Gateway
from api.rate_headers import rate_headers
from api.request_body import BodyLimits, read_object
from auth.limits.exceeded import LimitExceeded
from auth.limits.quota import Quotas
from auth.principal import Principal
from auth.usage.recorder import Kind, UsageRecorder
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
    quotas: Quotas
    usage: UsageRecorder
    created: int  # when this process began to serve, as /v1/models tells

    async def answer(self, request: Request, kind: Kind, work: Work) -> Response:
        """Read a body, do the work while the client stays, and give its JSON back.

        The one place where requests are limited and counted, whatever their route.

        Raises:
            ApiError: whatever went wrong, in the caller's contract.
        """
        context = context_of(request)
        config = self.gateway.config
        context.input_type = context.asked.get("x-input-type")
        context.lane = asked_lane(context.asked, context.principal.lane)
        limit_s = timeout_s(context.asked, config.timeout_s, config.max_timeout_s)
        context.deadline_s = context.started_s + limit_s
        counts = False  # towards the caller's limits
        try:
            await self._begin(context)
            content = await self._work(request, work, context)
            self.usage.record(context.principal, context.model, kind, context.tokens)
            for period in context.allowance.nearly_spent:
                self.metrics.budget_warnings.labels(period).inc()
            counts = True
        except ApiError as error:
            # A bad request is one; what was refused or failed for no fault of its own is none.
            counts = error.row.status < 500 and error.row.status != 429
            raise
        except ClientDisconnect:
            # What was sent to a worker may have been done: leaving early makes nothing free.
            counts = context.submitted
            raise
        finally:
            await context.allowance.settle(counts)
        context.headers["x-florilege-truncated"] = str(context.truncated)
        return Response(content, media_type="application/json")

    async def _begin(self, context: RequestContext) -> None:
        """Requests, concurrency and what is left of budgets, before anything is read."""
        try:
            context.allowance = await self.quotas.begin(
                context.principal, context.request_id, context.left_s()
            )
        except LimitExceeded as error:
            raise self._limited(error, context) from None

    async def _work(self, request: Request, work: Work, context: RequestContext) -> bytes:
        body = await read_object(request, self._body_limits(context))
        try:
            return await run_while_connected(request, work(self, body, context))
        except LimitExceeded as error:
            raise self._limited(error, context) from None
        except JobError as error:
            raise from_job(error) from None

    def _limited(self, error: LimitExceeded, context: RequestContext) -> ApiError:
        self.metrics.ratelimited.labels(error.limit).inc()
        context.headers |= rate_headers(error.requests, error.tokens)
        return from_limit(error, context.model)

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
        self.use(named.spec, name, context)
        return named

    def use(self, spec: ModelSpec, name: str | None, context: RequestContext) -> ModelSpec:
        """`name` is what the caller asked for; None: no model. Raises ApiError."""
        if not may_use(context.principal, spec):
            raise forbidden_model(name)
        context.model = spec.id
        context.headers["x-florilege-dtype"] = spec.dtype
        return spec


def may_use(principal: Principal, spec: ModelSpec) -> bool:
    """A key may name a model by its id or by an alias."""
    return any(principal.may_use(name) for name in (spec.id, *spec.aliases))


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service
