"""/v1/admin/projects: the limits that the keys of a project share."""

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.access import ScopedRoute
from api.admin.administration import actor_of, administration_of, answer, read_body
from api.admin.key_request import parse_changes

router = APIRouter(route_class=ScopedRoute)


@router.get("/v1/admin/projects")
async def list_projects(request: Request) -> Response:
    projects = await administration_of(request).keys.projects()
    data = [{"name": name, "limits": asdict(limits)} for name, limits in projects.items()]
    return answer({"object": "list", "data": data})


# A name may hold a slash, which arrives here decoded.
@router.patch("/v1/admin/projects/{name:path}/limits")
async def limit_project(request: Request) -> Response:
    """Change the limits that are named; null lifts one."""
    administration = administration_of(request)
    changes = parse_changes(await read_body(request))
    name = request.path_params["name"]
    limits = await administration.keys.set_project_limits(name, changes, actor_of(request))
    await administration.tell()
    return answer({"name": name, "limits": asdict(limits)})
