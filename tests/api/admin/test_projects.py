"""Projects, and the log of who changed what."""

from typing import Any

import pytest
from admin_side import AdminSide


async def test_limits_of_a_project_are_shown_changed_and_lifted(admin: AdminSide) -> None:
    made = await admin.create(project="a/b ü")
    url = "/v1/admin/projects/a%2Fb%20%C3%BC/limits"
    changed = await admin.client.patch(url, json={"tpm": 1_000, "rpm": 5})
    assert changed.json()["name"] == "a/b ü"
    assert (changed.json()["limits"]["tpm"], changed.json()["limits"]["rpm"]) == (1_000, 5)
    lifted = await admin.client.patch(url, json={"rpm": None})
    listed = (await admin.client.get("/v1/admin/projects")).json()
    assert listed == {"object": "list", "data": [lifted.json()]}
    assert {k: v for k, v in lifted.json()["limits"].items() if v} == {"tpm": 1_000}
    (holder,) = admin.authenticator.authenticate(made["key"]).holders
    assert (holder.kind, holder.name, holder.limits.tpm) == ("project", "a/b ü", 1_000)


async def test_project_without_a_key_is_404(admin: AdminSide) -> None:
    response = await admin.client.patch("/v1/admin/projects/none/limits", json={"rpm": 1})
    assert response.status_code == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, None),
        ({"rpm": 0}, "rpm"),
        ({"rpm": "1"}, "rpm"),
        ({"burst_s": -1}, "burst_s"),
        ({"daily_tokens": 2**60}, "daily_tokens"),
        ({"limits": {"rpm": 1}}, "limits"),
    ],
)
async def test_limits_that_cannot_be_are_a_400(
    admin: AdminSide, body: dict[str, Any], param: str | None
) -> None:
    await admin.create(project="shop")
    response = await admin.client.patch("/v1/admin/projects/shop/limits", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert not (await admin.keys.projects())["shop"].any_set


async def test_every_change_is_in_the_log_with_who_made_it(admin: AdminSide) -> None:
    made = await admin.create(project="shop")
    url = f"/v1/admin/keys/{made['id']}"
    await admin.client.patch(f"{url}/limits", json={"rpm": 5})
    await admin.client.patch("/v1/admin/projects/shop/limits", json={"tpm": 9})
    new = (await admin.client.post(f"{url}/rotate")).json()
    await admin.client.post(f"{url}/revoke")
    page = (await admin.client.get("/v1/admin/audit")).json()
    assert [(entry["actor"], entry["action"], entry["target"]) for entry in page["data"]] == [
        (admin.kid, "revoke", made["id"]),
        (admin.kid, "rotate", made["id"]),
        (admin.kid, "limits", "project:shop"),
        (admin.kid, "limits", made["id"]),
        (admin.kid, "create", made["id"]),
        ("cli", "create", admin.kid),
    ]
    assert page["data"][1]["detail"]["replaced_by"] == new["id"]
    assert page["data"][3]["detail"] == {"rpm": 5}
    assert not page["has_more"]


async def test_refused_change_leaves_no_entry(admin: AdminSide) -> None:
    await admin.client.patch(f"/v1/admin/keys/{admin.kid}/limits", json={"rpm": 0})
    await admin.client.post("/v1/admin/keys/000000000000/revoke")
    assert len((await admin.client.get("/v1/admin/audit")).json()["data"]) == 1


async def test_log_is_read_page_by_page(admin: AdminSide) -> None:
    for number in range(4):
        await admin.create(name=str(number))
    names: list[str] = []
    before, more = "", True
    while more:
        page = (await admin.client.get(f"/v1/admin/audit?limit=2{before}")).json()
        names += [entry["detail"]["name"] for entry in page["data"]]
        before, more = f"&before={page['last_id']}", page["has_more"]
    assert names == ["3", "2", "1", "0", "root"]


@pytest.mark.parametrize("query", ["limit=0", "before=x", "before=-1", "after=1"])
async def test_log_refuses_what_it_does_not_know(admin: AdminSide, query: str) -> None:
    assert (await admin.client.get(f"/v1/admin/audit?{query}")).status_code == 400
