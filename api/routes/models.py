"""GET /v1/models"""

from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.context import context_of
from api.openapi import MODEL, MODELS
from api.service import Service, may_use, service_of
from checkpoint.prompts import use_names
from checkpoint.spec import ModelSpec

router = APIRouter()


@router.get("/v1/models", openapi_extra=MODELS)
@router.get("/models", include_in_schema=False)
async def list_models(request: Request) -> Response:
    """The models the caller may use."""
    service = service_of(request)
    principal = context_of(request).principal
    served = await service.gateway.catalog.models()
    specs = [model.spec for model in served.values() if may_use(principal, model.spec)]
    data = [_describe(spec, service) for spec in specs]
    return _json({"object": "list", "data": data})


# Old SDKs send the slash of a hub id as it is, new ones percent-encoded: both arrive here decoded.
@router.get("/v1/models/{model_id:path}", openapi_extra=MODEL)
@router.get("/models/{model_id:path}", include_in_schema=False)
async def get_model(request: Request) -> Response:
    """One model, by id or alias."""
    service = service_of(request)
    named = await service.resolve(request.path_params["model_id"], context_of(request))
    return _json(_describe(named.spec, service))


def _describe(spec: ModelSpec, service: Service) -> dict[str, Any]:
    return {
        "id": spec.id,
        "object": "model",
        "created": service.created,
        "owned_by": "florilege",
        "aliases": [*spec.aliases, *use_names(spec)],
        "task": spec.task,
        "family": spec.family,
        "dimensions": spec.dim if spec.task == "embed" else None,
        "matryoshka_dimensions": list(spec.matryoshka),
        "max_model_len": spec.max_tokens,
        "max_tokens_source": spec.max_tokens_source,
        "pooling": spec.pooling,
        "include_prompt": spec.include_prompt,
        "normalizes": spec.normalizes,
        "quantizer": spec.quantizer,
        "calibrated": spec.calibration is not None,
        "prompts": dict(spec.prompts),
        "default_prompt": spec.default_prompt,
        "instruction": spec.instruction,
        "token_input": spec.token_input,
        "dtype": spec.dtype,
        "revision": spec.revision,
        "runtime": dict(spec.runtime),
    }


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")
