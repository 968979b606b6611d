"""/v1/admin/keys: make, show, rotate, revoke and limit keys."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.access import ScopedRoute
from api.admin.administration import actor_of, administration_of, answer, read_body
from api.admin.key_answer import describe
from api.admin.key_request import parse_changes, parse_new_key, parse_rotation
from api.admin.query import refuse_unknown, whole_number
from api.errors import ApiError
from auth.errors import UnknownKey

router = APIRouter(route_class=ScopedRoute)

_PAGE = (1, 1_000)  # keys an answer
_DEFAULT_PAGE = 100


@router.post("/v1/admin/keys")
async def create_key(request: Request) -> Response:
    """Make a key; its text is in this answer and nowhere else."""
    administration = administration_of(request)
    new = parse_new_key(await read_body(request), administration.now())
    peppers = administration.peppers()
    key, record = await administration.keys.create(new, peppers, actor_of(request))
    await administration.tell()
    return answer({"key": key} | describe(record, administration.now()))


@router.get("/v1/admin/keys")
async def list_keys(request: Request) -> Response:
    """The keys, the oldest first, from behind the one whose id is `after`."""
    refuse_unknown(request.query_params.keys(), ("limit", "after"))
    limit = whole_number(request, "limit", _PAGE) or _DEFAULT_PAGE
    after = request.query_params.get("after")
    administration = administration_of(request)
    try:
        page, has_more = await administration.keys.page(limit, after)
    except UnknownKey:
        message = "Invalid value for 'after': no such key."
        raise ApiError("invalid_value", message, "after") from None
    return answer(
        {
            "object": "list",
            "data": [describe(record, administration.now()) for record in page],
            "has_more": has_more,
            "last_id": page[-1].kid if page else None,
        }
    )


@router.get("/v1/admin/keys/{kid}")
async def show_key(request: Request) -> Response:
    administration = administration_of(request)
    record = await administration.keys.get(request.path_params["kid"])
    return answer(describe(record, administration.now()))


@router.post("/v1/admin/keys/{kid}/rotate")
async def rotate_key(request: Request) -> Response:
    """A new key with the settings of this one, which goes on for `grace_s` more.

    It lives for `expires_in_s`, or for as long as the old one was to live.
    """
    administration = administration_of(request)
    terms = parse_rotation(await read_body(request))
    key, record = await administration.keys.rotate(
        request.path_params["kid"], administration.peppers(), terms, actor_of(request)
    )
    await administration.tell()
    return answer({"key": key} | describe(record, administration.now()))


@router.post("/v1/admin/keys/{kid}/revoke")
async def revoke_key(request: Request) -> Response:
    """Refuse the key from now on."""
    administration = administration_of(request)
    refuse_unknown(await read_body(request), ())
    record = await administration.keys.revoke(request.path_params["kid"], actor_of(request))
    await administration.tell()
    return answer(describe(record, administration.now()))


@router.patch("/v1/admin/keys/{kid}/limits")
async def limit_key(request: Request) -> Response:
    """Change the limits that are named; null lifts one."""
    administration = administration_of(request)
    changes = parse_changes(await read_body(request))
    kid = request.path_params["kid"]
    record = await administration.keys.set_limits(kid, changes, actor_of(request))
    await administration.tell()
    return answer(describe(record, administration.now()))
