"""POST /v1/rerank and /v1/score, by cross-encoder or by cosine of an embedding model."""

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.access import ScopedRoute
from api.context import RequestContext
from api.errors import ApiError
from api.fields import missing
from api.openapi import RERANK, SCORE
from api.ranking import order, rerank_body, score_body, sigmoid, texts_body
from api.rerank_request import RerankRequest, parse_rerank_request
from api.scoring import Scores, score
from api.service import Service, service_of
from checkpoint.spec import ModelSpec
from observability.request_id import new_id

router = APIRouter(route_class=ScopedRoute)


@router.post("/v1/rerank", openapi_extra=RERANK)
@router.post("/v2/rerank", include_in_schema=False)
@router.post("/rerank", include_in_schema=False)
@router.post("/v1/score", openapi_extra=SCORE)
@router.post("/score", include_in_schema=False)
async def rerank(request: Request) -> Response:
    """Score documents against a query."""
    return await service_of(request).answer(request, "rerank", _rerank)


async def _rerank(service: Service, body: dict[str, Any], context: RequestContext) -> bytes:
    request = parse_rerank_request(body, service.gateway.config.max_inputs)
    spec = await _model(service, request, context)
    instruction = len(request.fields.instruction or "")
    for group in request.groups:
        # Under a template the query and the instruction may be tokenized again with each text.
        repeats = 1 if spec.template is None else len(group.texts)
        context.characters += repeats * (len(group.query) + instruction)
        context.characters += sum(map(len, group.texts))
    scores = await score(service.gateway, spec, request, context)
    started_s = time.perf_counter()
    content = _content(request, spec, scores, context)
    context.stages["encode"] = time.perf_counter() - started_s
    return content


async def _model(service: Service, request: RerankRequest, context: RequestContext) -> ModelSpec:
    if request.fields.model is not None:
        spec = (await service.resolve(request.fields.model, context)).spec
    else:
        sole = await service.gateway.catalog.sole_reranker()
        if sole is None:
            raise missing("model")
        spec = service.use(sole, None, context)
    if spec.task == "embed" and not spec.gives_vectors:
        message = f"The model `{spec.id}` gives no vectors that a cosine could compare."
        raise ApiError("invalid_value", message, param="model")
    return spec


def _content(
    request: RerankRequest, spec: ModelSpec, scores: Scores, context: RequestContext
) -> bytes:
    ranks = order(scores)  # by the raw score: a sigmoid makes ties of large logits
    if spec.task == "score" and not request.fields.raw:
        scores = sigmoid(scores)
    about = {
        "id": new_id("rerank-"),
        "model": spec.id,
        "created": int(time.time()),
        "tokens": context.tokens,
    }
    if request.shape == "texts":
        return texts_body(request, scores, ranks)
    if request.shape == "score":
        return score_body(scores, about)
    return rerank_body(request, scores, ranks, about)
