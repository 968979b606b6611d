"""POST /v1/rerank and /v1/score, by cross-encoder or by cosine of an embedding model."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import Response

from api.context import RequestContext
from api.errors import from_failed_sequence, from_input
from api.fields import missing
from api.openapi import RERANK, SCORE
from api.ranking import order, rerank_body, score_body, sigmoid, texts_body
from api.rerank_request import RerankRequest, parse_rerank_request
from api.service import Service, service_of
from api.sharding import SequenceFailed, concatenate
from api.vectors import cosines
from checkpoint.errors import InputError, InputTooLong, QueryTooLong
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import Encoded, TextTokenizer
from observability.request_id import new_id

router = APIRouter()


@router.post("/v1/rerank", openapi_extra=RERANK)
@router.post("/v2/rerank", include_in_schema=False)
@router.post("/rerank", include_in_schema=False)
@router.post("/v1/score", openapi_extra=SCORE)
@router.post("/score", include_in_schema=False)
async def rerank(request: Request) -> Response:
    """Score documents against a query."""
    service = service_of(request)

    async def work(body: dict[str, Any], context: RequestContext) -> bytes:
        return await _rerank(service, body, context)

    return await service.answer(request, "rerank", work)


async def _rerank(service: Service, body: dict[str, Any], context: RequestContext) -> bytes:
    request = parse_rerank_request(body, service.gateway.config.max_inputs)
    spec = await _model(service, request, context)
    for group in request.groups:
        context.characters += len(group.query) + sum(map(len, group.texts))
    run = _score_pairs if spec.task == "score" else _score_cosine
    try:
        scores = await run(service, spec, request, context)
    except InputError as error:
        raise from_input(error, _texts_param(request)) from None
    except SequenceFailed as failed:
        raise from_failed_sequence(failed.code, _param(request, spec, failed.index)) from None
    started_s = time.perf_counter()
    content = _content(request, spec, scores, context)
    context.stages["encode"] = time.perf_counter() - started_s
    return content


async def _model(service: Service, request: RerankRequest, context: RequestContext) -> ModelSpec:
    if request.fields.model is not None:
        return await service.resolve(request.fields.model, context)
    sole = await service.gateway.catalog.sole_reranker()
    if sole is None:
        raise missing("model")
    return service.use(sole, context)


async def _score_pairs(
    service: Service, spec: ModelSpec, request: RerankRequest, context: RequestContext
) -> NDArray[np.float32]:
    """One raw logit a pair, by the cross-encoder: [N]."""

    def encode(tokenizer: TextTokenizer) -> Encoded:
        parts: list[Encoded] = []
        for group in request.groups:
            try:
                part = tokenizer.encode_pairs(
                    group.query,
                    group.texts,
                    truncate=request.fields.truncates,
                    max_document_tokens=request.fields.max_tokens_per_doc or None,
                )
            except InputError as error:
                error.index += sum(len(part.lengths) for part in parts)
                raise
            parts.append(part)
        return concatenate(parts)

    answer = await service.gateway.run(spec, "score", encode, context)
    return answer.rows[:, 0]


async def _score_cosine(
    service: Service, spec: ModelSpec, request: RerankRequest, context: RequestContext
) -> NDArray[np.float32]:
    """The cosine of each document's vector with its query's, prompts applied: [N]."""
    encode = _bi_encoder(spec, request)
    context.headers["x-florilege-scoring"] = "cosine"
    answer = await service.gateway.run(spec, "embed", encode, context)
    rows, scores = answer.rows, []
    queries, documents = rows[: len(request.groups)], rows[len(request.groups) :]
    for query, group in zip(queries, request.groups, strict=True):
        scores.append(cosines(query, documents[: len(group.texts)]))
        documents = documents[len(group.texts) :]
    return np.concatenate(scores)


def _bi_encoder(spec: ModelSpec, request: RerankRequest) -> Callable[[TextTokenizer], Encoded]:
    """Queries first, documents behind them, each under its own prompt."""
    queries = [group.query for group in request.groups]
    texts = [text for group in request.groups for text in group.texts]

    def encode(tokenizer: TextTokenizer) -> Encoded:
        return concatenate(
            [
                _encode_queries(tokenizer, queries, _prompt(spec, "query")),
                tokenizer.encode(
                    texts,
                    prompt=_prompt(spec, "document", "passage", "corpus"),
                    truncate=request.fields.truncates,
                ),
            ]
        )

    return encode


def _encode_queries(tokenizer: TextTokenizer, queries: list[str], prompt: str) -> Encoded:
    """A query is never cut: half a question is another question."""
    try:
        return tokenizer.encode(queries, prompt=prompt)
    except InputTooLong as error:
        raise QueryTooLong(error.tokens, error.limit) from None


def _prompt(spec: ModelSpec, *names: str) -> str:
    """The first of the prompts that the model has, as sentence-transformers chooses."""
    return next((spec.prompts[name] for name in names if name in spec.prompts), "")


def _param(request: RerankRequest, spec: ModelSpec, index: int) -> str:
    """The field of the sequence at `index`; a bi-encoder's queries stand before the texts."""
    if spec.task == "embed":
        if index < len(request.groups):
            return "query"
        index -= len(request.groups)
    return f"{_texts_param(request)}[{index}]"


def _texts_param(request: RerankRequest) -> str:
    return {"rerank": "documents", "texts": "texts", "score": "text_2"}[request.shape]


def _content(
    request: RerankRequest,
    spec: ModelSpec,
    scores: NDArray[np.float32],
    context: RequestContext,
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
