"""GET /v1/admin/audit: who changed which key or project."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.access import ScopedRoute
from api.admin.administration import administration_of, answer
from api.admin.query import refuse_unknown, whole_number

router = APIRouter(route_class=ScopedRoute)

_PAGE = (1, 1_000)  # entries an answer
_DEFAULT_PAGE = 100
_IDS = (1, 10**15 - 1)


@router.get("/v1/admin/audit")
async def list_changes(request: Request) -> Response:
    """The newest first, from behind the entry whose id is `before`."""
    refuse_unknown(request.query_params.keys(), ("limit", "before"))
    limit = whole_number(request, "limit", _PAGE) or _DEFAULT_PAGE
    before = whole_number(request, "before", _IDS)
    # One more than asked for tells whether there are more.
    entries = await administration_of(request).keys.audit_log(limit + 1, before)
    page = entries[:limit]
    return answer(
        {
            "object": "list",
            "data": [asdict(entry) for entry in page],
            "has_more": len(entries) > limit,
            "last_id": page[-1].id if page else None,
        }
    )
