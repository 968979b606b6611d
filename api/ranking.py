"""Scores to the answers of the rerank routes."""

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from api.errors import ApiError
from api.rerank_request import RerankRequest


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / (1 + exp(-x)) without overflow, in float64 so that large logits keep apart."""
    x = logits.astype(np.float64)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)


def order(scores: NDArray[np.float32]) -> list[int]:
    """Indices by falling score, ties by index."""
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def rerank_body(
    request: RerankRequest, scores: NDArray[np.float32], ranks: list[int], about: dict[str, Any]
) -> bytes:
    """The superset of Cohere, Jina and Voyage. `about`: id, model, created, tokens."""
    results = [
        {"index": i, "relevance_score": float(scores[i])}
        | ({"document": request.documents[i]} if request.fields.return_documents else {})
        for i in _kept(request, ranks)
    ]
    tokens = about["tokens"]
    return _dumps(
        {
            "id": about["id"],
            "object": "list",
            "model": about["model"],
            "created": about["created"],
            "results": results,
            "data": results,
            "meta": {
                "api_version": {"version": "2"},
                "billed_units": {
                    "search_units": 1,
                    "input_tokens": tokens,
                    "total_tokens": tokens,
                },
                "tokens": {"input_tokens": tokens, "output_tokens": 0},
            },
            "usage": _usage(tokens),
        }
    )


def _dumps(value: dict[str, Any]) -> bytes:
    """Documents are given back as they came, and JSON is read deeper than it is written."""
    try:
        return orjson.dumps(value)
    except TypeError:
        message = "A document is nested too deeply to be given back."
        raise ApiError("invalid_value", message, param="documents") from None


def texts_body(request: RerankRequest, scores: NDArray[np.float32], ranks: list[int]) -> bytes:
    """TEI's answer: a bare list with every document."""
    return orjson.dumps(
        [
            {"index": i, "score": float(scores[i])}
            | ({"text": request.groups[0].texts[i]} if request.fields.return_text else {})
            for i in ranks
        ]
    )


def score_body(scores: NDArray[np.float32], about: dict[str, Any]) -> bytes:
    """vLLM's answer to /score: in the order of the request."""
    data = [
        {"index": i, "object": "score", "score": float(score)} for i, score in enumerate(scores)
    ]
    return orjson.dumps(
        {
            "id": about["id"],
            "object": "list",
            "created": about["created"],
            "model": about["model"],
            "data": data,
            "usage": _usage(about["tokens"]),
        }
    )


def _kept(request: RerankRequest, ranks: list[int]) -> list[int]:
    return ranks[: (request.fields.top_n or request.fields.top_k or len(ranks))]


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "total_tokens": tokens}
