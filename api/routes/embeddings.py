"""POST /v1/embeddings"""

import asyncio
import time
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.access import ScopedRoute
from api.context import RequestContext
from api.embeddings_request import EmbeddingsRequest, parse_embeddings_request
from api.errors import ApiError, from_failed_sequence, from_input, from_prompt
from api.gateway import Answer, Encode
from api.openapi import EMBEDDINGS
from api.service import Service, service_of
from api.sharding import SequenceFailed
from api.text_encoding import Tokenized, encoding_of
from api.vectors import VectorForm, embeddings_body, finish
from checkpoint.errors import InputError, UnknownPrompt
from checkpoint.prompts import PromptChoice, prompt_of
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer

router = APIRouter(route_class=ScopedRoute)

# Above this many numbers an answer is encoded off the event loop: about 1 ms as floats.
LARGE = 50_000


@router.post("/v1/embeddings", openapi_extra=EMBEDDINGS)
@router.post("/embeddings", include_in_schema=False)
async def create_embeddings(request: Request) -> Response:
    """Embed texts or token arrays."""
    return await service_of(request).answer(request, "embed", _embed)


async def _embed(service: Service, body: dict[str, Any], context: RequestContext) -> bytes:
    request = parse_embeddings_request(body, service.gateway.config.max_inputs)
    fields = request.fields
    spec, use = await service.resolve(fields.model, context)
    form = fields.form()
    _check_model(spec, form)
    prompt = _prompt(spec, fields.choice(context.input_type, use))
    inputs = request.texts or request.token_ids or []
    context.characters = sum(map(len, inputs)) + len(prompt) * len(inputs)
    encode = _encoder(request, spec, prompt)
    try:
        answer = await service.gateway.run(spec, "embed", encode, context)
    except InputError as error:
        raise from_input(error, "input") from None
    except SequenceFailed as failed:
        raise from_failed_sequence(failed.code, f"input[{failed.index}]") from None
    started_s = time.perf_counter()
    if answer.rows.size > LARGE:
        content = await asyncio.to_thread(_content, answer, form)
    else:
        content = _content(answer, form)
    context.stages["encode"] = time.perf_counter() - started_s
    return content


def _check_model(spec: ModelSpec, form: VectorForm) -> None:
    if not spec.gives_vectors:
        message = f"The model `{spec.id}` does not give one dense vector a text."
        raise ApiError("invalid_value", message, param="model")
    sizes = {spec.dim, *spec.matryoshka}
    if form.dimensions is not None and form.dimensions not in sizes:
        message = (
            "This model does not support specifying dimensions."
            if len(sizes) == 1
            else f"Invalid value for 'dimensions'. Supported values: {sorted(sizes)}."
        )
        raise ApiError("invalid_value", message, param="dimensions")
    if form.dtype in ("binary", "ubinary") and (form.dimensions or spec.dim) % 8:
        message = "Binary vectors need a number of dimensions that is a multiple of 8."
        raise ApiError("invalid_value", message, param="dimensions")


def _prompt(spec: ModelSpec, choice: PromptChoice) -> str:
    try:
        return prompt_of(spec, choice)
    except UnknownPrompt as error:
        raise from_prompt(error) from None


def _encoder(request: EmbeddingsRequest, spec: ModelSpec, prompt: str) -> Encode:
    """What turns the inputs into ids, to be run in a tokenizer's thread."""
    encoding = encoding_of(spec, request.fields, prompt, truncate=False)
    policy = request.fields.token_input or spec.token_input
    texts, token_ids = request.texts, request.token_ids
    if token_ids is not None and policy == "reject":
        message = "This model takes text only: '$.input' holds token ids."
        raise ApiError("invalid_value", message, param="input")

    def encode(tokenizer: TextTokenizer) -> Tokenized:
        if texts is not None:
            return encoding.texts(tokenizer, texts)
        return encoding.token_ids(tokenizer, token_ids or [], policy)

    return encode


def _content(answer: Answer, form: VectorForm) -> bytes:
    rows = finish(answer.rows, answer.spec, form)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        index = int(np.argmin(finite))
        raise from_failed_sequence("non_finite", f"input[{index}]")
    return embeddings_body(rows, form.base64, answer.spec.id, answer.tokens)
