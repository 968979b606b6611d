"""GET /health/live and /health/ready, as on the admin port."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.openapi import HEALTH
from api.service import service_of
from observability.admin import live_answer, ready_answer

router = APIRouter()


@router.get("/health/live", openapi_extra=HEALTH)
@router.head("/health/live", include_in_schema=False)
async def live() -> Response:
    """Whether the process answers."""
    return _response(live_answer())


@router.get("/health/ready", openapi_extra=HEALTH)
@router.head("/health/ready", include_in_schema=False)
async def ready(request: Request) -> Response:
    """Whether it should be sent requests; 503 with the reasons otherwise."""
    return _response(ready_answer(service_of(request).health))


def _response(answer: tuple[int, bytes, bytes]) -> Response:
    status, body, content_type = answer
    return Response(body, status, media_type=content_type.decode())
