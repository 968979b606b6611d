"""Scores of texts against queries: by a cross-encoder, or by the cosine of an embedding model."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from api.context import RequestContext
from api.errors import ApiError, from_failed_sequence, from_input, from_prompt
from api.gateway import Gateway
from api.rerank_request import RerankFields, RerankRequest
from api.sharding import SequenceFailed, concatenate
from api.text_encoding import TextEncoding, Tokenized, encoding_of
from api.vectors import cosines
from checkpoint.encoded import Encoded
from checkpoint.errors import InputError, InputTooLong, QueryTooLong, UnknownPrompt
from checkpoint.prompts import PromptChoice, prompt_of, templated_query
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import TextTokenizer

Scores = NDArray[np.float32]  # [N], raw


async def score(
    gateway: Gateway, spec: ModelSpec, request: RerankRequest, context: RequestContext
) -> Scores:
    """One raw score for each text, in the order of the request.

    Raises ApiError: naming the query or the text at fault.
    """
    run = _score_pairs if spec.task == "score" else _score_cosine
    try:
        return await run(gateway, spec, request, context)
    except UnknownPrompt as error:
        raise from_prompt(error) from None
    except InputError as error:
        raise _from_input(error, request) from None
    except SequenceFailed as failed:
        raise from_failed_sequence(failed.code, _param(request, spec, failed.index)) from None


async def _score_pairs(
    gateway: Gateway, spec: ModelSpec, request: RerankRequest, context: RequestContext
) -> Scores:
    pairs = _pair_encoder(spec, request.fields)

    def encode(tokenizer: TextTokenizer) -> Tokenized:
        parts: list[Tokenized] = []
        for group in request.groups:
            try:
                parts.append(Tokenized(pairs(tokenizer, group.query, group.texts)))
            except InputError as error:
                error.index += sum(len(part.encoded.lengths) for part in parts)
                raise
        return concatenate(parts)

    answer = await gateway.run(spec, "score", encode, context)
    return answer.rows[:, 0]


def _pair_encoder(
    spec: ModelSpec, fields: RerankFields
) -> Callable[[TextTokenizer, str, list[str]], Encoded]:
    """Query and text as the model's template has them, else side by side."""
    if spec.template is None and fields.instruction is not None:
        raise ApiError("invalid_value", "This model takes no instruction.", param="instruction")

    def encode(tokenizer: TextTokenizer, query: str, texts: list[str]) -> Encoded:
        truncate, most = fields.truncates, fields.max_tokens_per_doc or None
        if spec.template is None:
            return tokenizer.encode_pairs(
                query, texts, truncate=truncate, max_document_tokens=most, side=fields.side
            )
        asked = templated_query(spec, query, fields.instruction)
        return tokenizer.encode_template(
            asked, texts, truncate=truncate, max_document_tokens=most, side=fields.side
        )

    return encode


async def _score_cosine(
    gateway: Gateway, spec: ModelSpec, request: RerankRequest, context: RequestContext
) -> Scores:
    """Queries first, texts behind them, each under its own prompt."""
    fields = request.fields
    query_prompt = prompt_of(spec, PromptChoice(use="query", instruction=fields.instruction))
    text_prompt = prompt_of(spec, PromptChoice(use="document"))
    queries = TextEncoding(spec, query_prompt)
    texts = replace(
        encoding_of(spec, fields, text_prompt, truncate=True),
        max_text_tokens=fields.max_tokens_per_doc or None,
    )

    def encode(tokenizer: TextTokenizer) -> Tokenized:
        return concatenate(
            [
                _encode_queries(tokenizer, queries, [group.query for group in request.groups]),
                texts.texts(tokenizer, [text for group in request.groups for text in group.texts]),
            ]
        )

    context.headers["x-florilege-scoring"] = "cosine"
    rows = (await gateway.run(spec, "embed", encode, context)).rows
    scores, start = [], len(request.groups)
    for query, group in zip(rows, request.groups, strict=False):
        scores.append(cosines(query, rows[start : start + len(group.texts)]))
        start += len(group.texts)
    return np.concatenate(scores)


def _encode_queries(
    tokenizer: TextTokenizer, encoding: TextEncoding, queries: list[str]
) -> Tokenized:
    """A query is never cut: half a question is another question."""
    try:
        return encoding.texts(tokenizer, queries)
    except InputTooLong as error:
        raise QueryTooLong(error.tokens, error.limit) from None


def _from_input(error: InputError, request: RerankRequest) -> ApiError:
    """Names the fields as the body does."""
    found = from_input(error, request.texts_name)
    if isinstance(error, QueryTooLong):
        found.param = request.query_name
    return found


def _param(request: RerankRequest, spec: ModelSpec, index: int) -> str:
    """The field of the sequence at `index`; a bi-encoder's queries stand before the texts."""
    if spec.task == "embed":
        if index < len(request.groups):
            return request.query_name
        index -= len(request.groups)
    return f"{request.texts_name}[{index}]"
