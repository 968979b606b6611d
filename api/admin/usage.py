"""GET /v1/organization/usage/embeddings"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.access import ScopedRoute
from api.admin.administration import administration_of, answer
from api.admin.usage_page import parse_usage_request, usage_page

router = APIRouter(route_class=ScopedRoute)


@router.get("/v1/organization/usage/embeddings")
async def embeddings_usage(request: Request) -> Response:
    """Requests and tokens by day, and by what `group_by` names, as far as gateways have written."""
    administration = administration_of(request)
    asked = parse_usage_request(request, administration.now())
    return answer(usage_page(asked, await administration.usage.totals(asked.query)))
