"""The OpenAPI schema of each route, by hand, since handlers read their bodies themselves."""

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_IDS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_BOOLEAN: Schema = {"type": "boolean", "nullable": True}
_COUNT: Schema = {"type": "integer", "minimum": 0, "nullable": True}
_TEXT_OR_NULL: Schema = {"type": "string", "nullable": True}


def _choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values), "nullable": True}


_PROMPTS: Schema = {
    **dict.fromkeys(("prompt", "prompt_name", "instruction", "input_type"), _TEXT_OR_NULL),
    "truncate": {"oneOf": [{"type": "boolean"}, _choice("NONE", "START", "END")]},
    "truncation_direction": _choice("left", "right"),
}

_ERROR: Schema = {
    "type": "object",
    "required": ["error", "message", "detail"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "param": {"type": "string", "nullable": True},
                "code": {"type": "string", "nullable": True},
            },
        },
        "message": _TEXT,
        "detail": _TEXT,
    },
}

_USAGE: Schema = {
    "type": "object",
    "required": ["prompt_tokens", "total_tokens"],
    "properties": {"prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}},
}


def _operation(answer: Schema, body: Schema | None = None) -> Schema:
    operation: Schema = {
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer}}},
            "default": {
                "description": "Error",
                "content": {"application/json": {"schema": _ERROR}},
            },
        }
    }
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return operation


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


EMBEDDINGS = _operation(
    _object(
        {
            "object": {"type": "string", "enum": ["list"]},
            "model": _TEXT,
            "data": {
                "type": "array",
                "items": _object(
                    {
                        "object": {"type": "string", "enum": ["embedding"]},
                        "index": {"type": "integer"},
                        "embedding": {
                            "oneOf": [{"type": "array", "items": {"type": "number"}}, _TEXT]
                        },
                    },
                    "object",
                    "index",
                    "embedding",
                ),
            },
            "usage": _USAGE,
        },
        "object",
        "model",
        "data",
        "usage",
    ),
    _object(
        {
            "model": _TEXT,
            "input": {
                "oneOf": [
                    _TEXT,
                    {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 2048},
                    _IDS,
                    {"type": "array", "items": _IDS, "minItems": 1, "maxItems": 2048},
                ]
            },
            "encoding_format": _choice("float", "base64", "base64_int8", "base64_binary"),
            "output_dtype": _choice("float", "int8", "uint8", "binary", "ubinary"),
            "bitorder": _choice("big", "little"),
            "dimensions": {"type": "integer", "minimum": 1, "nullable": True},
            "normalize": _BOOLEAN,
            **_PROMPTS,
            "token_input": _choice("cl100k_decode", "native", "reject"),
            "user": _TEXT_OR_NULL,
        },
        "model",
        "input",
    ),
)

_RESULT = _object(
    {
        "index": {"type": "integer"},
        "relevance_score": {"type": "number"},
        "document": {"type": "object"},
    },
    "index",
    "relevance_score",
)

RERANK = _operation(
    _object(
        {
            "id": _TEXT,
            "object": {"type": "string", "enum": ["list"]},
            "model": _TEXT,
            "created": {"type": "integer"},
            "results": {"type": "array", "items": _RESULT},
            "data": {"type": "array", "items": _RESULT},
            "meta": {"type": "object"},
            "usage": _USAGE,
        },
        "id",
        "model",
        "results",
        "usage",
    ),
    _object(
        {
            "model": {"type": "string", "nullable": True},
            "query": _TEXT,
            "documents": {
                "type": "array",
                "items": {"oneOf": [_TEXT, {"type": "object"}]},
                "minItems": 1,
            },
            "top_n": _COUNT,
            "top_k": _COUNT,
            "return_documents": _BOOLEAN,
            "rank_fields": {"type": "array", "items": _TEXT, "nullable": True},
            "max_tokens_per_doc": _COUNT,
            "truncation": _BOOLEAN,
            "truncation_direction": _choice("left", "right"),
            "instruction": _TEXT_OR_NULL,
            "raw_scores": _BOOLEAN,
        },
        "query",
        "documents",
    ),
)

_TEXTS: Schema = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}

SCORE = _operation(
    _object(
        {
            "id": _TEXT,
            "object": {"type": "string", "enum": ["list"]},
            "model": _TEXT,
            "created": {"type": "integer"},
            "data": {"type": "array", "items": {"type": "object"}},
            "usage": _USAGE,
        },
        "id",
        "model",
        "data",
        "usage",
    ),
    _object(
        {"model": {"type": "string", "nullable": True}, "text_1": _TEXTS, "text_2": _TEXTS},
        "text_1",
        "text_2",
    ),
)

_MODEL = _object(
    {
        "id": _TEXT,
        "object": {"type": "string", "enum": ["model"]},
        "created": {"type": "integer"},
        "owned_by": _TEXT,
    },
    "id",
    "object",
    "created",
    "owned_by",
)

MODEL = _operation(_MODEL) | {
    "parameters": [{"name": "model_id", "in": "path", "required": True, "schema": _TEXT}]
}
MODELS = _operation(
    _object(
        {
            "object": {"type": "string", "enum": ["list"]},
            "data": {"type": "array", "items": _MODEL},
        },
        "object",
        "data",
    )
)
HEALTH = _operation(_object({"status": _TEXT}, "status"))
