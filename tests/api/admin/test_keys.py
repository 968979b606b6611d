"""The keys API: what is made, shown, changed, and refused."""

import io
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from admin_side import AdminSide

from auth.errors import InvalidKey, PepperMissing, StoreUnavailable
from auth.record import NewKey
from observability.logs import configure_logs

NOBODY = "000000000000"

FULL = {
    "name": "search",
    "owner": "ada@example.org",
    "project": "shop",
    "env": "test",
    "scopes": ["embed"],
    "models": ["b", "a"],
    "lane": "bulk",
    "limits": {
        "rpm": 60,
        "tpm": 2**40,
        "max_concurrency": 4,
        "burst_s": 1.5,
        "daily_tokens": 1,
        "monthly_tokens": 10**15,
    },
    "expires_at": 4_000_000_000,
}


async def test_key_is_made_as_asked_and_works_at_once(admin: AdminSide) -> None:
    made = await admin.create(**FULL)
    key = made.pop("key")
    shown = (await admin.client.get(f"/v1/admin/keys/{made['id']}")).json()
    assert shown == made
    assert {name: made[name] for name in FULL} == FULL | {"models": ["a", "b"]}
    assert (made["state"], made["revoked_at"], made["last_used_at"]) == ("active", None, None)
    principal = admin.authenticator.authenticate(key)
    assert (principal.kid, principal.project, principal.lane) == (made["id"], "shop", "bulk")
    assert admin.changes == 1


async def test_key_of_a_name_alone_has_the_defaults(admin: AdminSide) -> None:
    made = await admin.create(owner=None, scopes=None, limits=None, models=None)
    assert made["scopes"] == ["embed", "rerank"]
    assert set(made["limits"].values()) == {None}
    assert (made["env"], made["models"], made["expires_at"]) == ("live", None, None)


async def test_expiry_may_be_told_by_how_long(admin: AdminSide) -> None:
    made = await admin.create(expires_in_s=90.5)
    assert abs(made["expires_at"] - time.time() - 90) < 10


async def test_no_answer_but_the_first_and_no_log_holds_the_key(admin: AdminSide) -> None:
    output = io.StringIO()
    configure_logs(stream=output)
    made = await admin.create()
    secret = made["key"].rpartition("-")[2]
    later = [
        await admin.client.get("/v1/admin/keys"),
        await admin.client.get(f"/v1/admin/keys/{made['id']}"),
        await admin.client.patch(f"/v1/admin/keys/{made['id']}/limits", json={"rpm": 1}),
        await admin.client.post(f"/v1/admin/keys/{made['id']}/revoke"),
        await admin.client.get("/v1/admin/audit"),
    ]
    record = await admin.keys.get(made["id"])
    for response in later:
        assert response.status_code == 200
        assert response.headers["cache-control"] == "no-store"
        assert secret not in response.text
        assert record.digest.hex() not in response.text
    assert secret not in output.getvalue()
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert {line["kid"] for line in lines} == {admin.kid}
    assert "/v1/admin/keys/{kid}/revoke" in {line["route"] for line in lines}


async def test_keys_are_listed_page_by_page(admin: AdminSide) -> None:
    made = [admin.kid] + [(await admin.create(name=str(n)))["id"] for n in range(4)]
    listed: list[str] = []
    after, more = "", True
    while more:
        response = await admin.client.get(f"/v1/admin/keys?limit=2{after}")
        page = response.json()
        assert len(page["data"]) <= 2
        listed += [record["id"] for record in page["data"]]
        after, more = f"&after={page['last_id']}", page["has_more"]
    assert sorted(listed) == sorted(made)
    assert len((await admin.client.get("/v1/admin/keys")).json()["data"]) == 5


async def test_rotated_key_goes_on_for_its_grace(admin: AdminSide) -> None:
    old = await admin.create(limits={"rpm": 5})
    response = await admin.client.post(f"/v1/admin/keys/{old['id']}/rotate", json={"grace_s": 60})
    new = response.json()
    assert (new["replaces"], new["limits"]["rpm"]) == (old["id"], 5)
    assert new["key"] != old["key"]
    for made in (old, new):
        assert admin.authenticator.authenticate(made["key"]).kid == made["id"]
    left_s = (await admin.keys.get(old["id"])).expires_at or 0
    assert abs(left_s - time.time() - 60) < 10


async def test_rotation_gives_the_old_key_a_day_unless_told_otherwise(admin: AdminSide) -> None:
    old = await admin.create()
    assert (await admin.client.post(f"/v1/admin/keys/{old['id']}/rotate")).status_code == 200
    left_s = (await admin.keys.get(old["id"])).expires_at or 0
    assert abs(left_s - time.time() - 86_400) < 10


async def test_rotated_key_lives_as_long_as_the_old_one_was_to_live_unless_told(
    admin: AdminSide,
) -> None:
    _, old = await admin.keys.create(
        NewKey(name="a", expires_at=int(time.time()) + 3_600), admin.read_peppers()
    )
    response = await admin.client.post(f"/v1/admin/keys/{old.kid}/rotate")
    new = response.json()
    assert abs(new["expires_at"] - time.time() - 3_600) < 10
    response = await admin.client.post(
        f"/v1/admin/keys/{new['id']}/rotate", json={"expires_in_s": 86_400}
    )
    assert abs(response.json()["expires_at"] - time.time() - 86_400) < 10
    forever = await admin.create()
    response = await admin.client.post(f"/v1/admin/keys/{forever['id']}/rotate")
    assert response.json()["expires_at"] is None


@pytest.mark.parametrize("kid", ["%00", "a%00b"])
async def test_id_that_no_database_holds_is_404(admin: AdminSide, kid: str) -> None:
    for method, path in [("GET", ""), ("POST", "/rotate"), ("POST", "/revoke")]:
        response = await admin.client.request(method, f"/v1/admin/keys/{kid}{path}")
        assert response.status_code == 404, response.text
    response = await admin.client.patch(f"/v1/admin/keys/{kid}/limits", json={"rpm": 1})
    assert response.status_code == 404
    assert (await admin.client.get(f"/v1/admin/keys?after={kid}")).status_code == 400


async def test_revoked_key_is_refused_at_once(admin: AdminSide) -> None:
    made = await admin.create()
    response = await admin.client.post(f"/v1/admin/keys/{made['id']}/revoke", json={})
    assert response.json()["state"] == "revoked"
    with pytest.raises(InvalidKey):
        admin.authenticator.authenticate(made["key"])


async def test_limits_that_are_named_change_and_null_lifts_one(admin: AdminSide) -> None:
    made = await admin.create(limits={"rpm": 5, "tpm": 100, "burst_s": 2.0})
    url = f"/v1/admin/keys/{made['id']}/limits"
    response = await admin.client.patch(url, json={"rpm": None, "daily_tokens": 7})
    limits = {name: value for name, value in response.json()["limits"].items() if value}
    assert limits == {"tpm": 100, "burst_s": 2.0, "daily_tokens": 7}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/rotate"), ("POST", "/revoke"), ("PATCH", "/limits")],
)
async def test_key_that_is_not_there_is_404(admin: AdminSide, method: str, path: str) -> None:
    body = {"rpm": 1} if method == "PATCH" else None
    response = await admin.client.request(method, f"/v1/admin/keys/{NOBODY}{path}", json=body)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"
    assert NOBODY in response.json()["error"]["message"]
    assert admin.changes == 0


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": None}, "name"),
        ({"name": 1}, "name"),
        ({"name": " "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"scopes": "embed"}, "scopes"),
        ({"models": [1]}, "models[0]"),
        ({"models": []}, "models"),
        ({"owner": " "}, "owner"),
        ({"project": "a\n"}, "project"),
        ({"lane": "fast"}, "lane"),
        ({"env": "LIVE"}, "env"),
        ({"limits": {"rpm": 0}}, "rpm"),
        ({"limits": {"rpm": -1}}, "rpm"),
        ({"limits": {"rpm": 2**31}}, "rpm"),
        ({"limits": {"rpm": True}}, "rpm"),
        ({"limits": {"rpm": 1.5}}, "rpm"),
        ({"limits": {"rpmm": 1}}, "rpmm"),
        ({"limits": 1}, "limits"),
        ({"expires_at": 1}, "expires_at"),
        ({"expires_at": 2**60}, "expires_at"),
        ({"expires_in_s": -1}, "expires_in_s"),
        ({"expires_in_s": 0}, "expires_in_s"),
        ({"expires_in_s": 0.1}, "expires_in_s"),
        ({"expires_in_s": 1e300}, "expires_in_s"),
        ({"expires_in_s": 1, "expires_at": 4_000_000_000}, "expires_in_s"),
        ({"rpm": 1}, "rpm"),
    ],
)
async def test_key_that_cannot_be_is_a_400_and_not_made(
    admin: AdminSide, body: dict[str, Any], param: str
) -> None:
    response = await admin.client.post("/v1/admin/keys", json={"name": "a"} | body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param), error
    assert param in error["message"]  # in its own spelling
    assert error["type"] == "invalid_request_error"
    assert await admin.keys.count() == 1
    assert admin.changes == 0


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"[]", 400), (b"nothing", 400), (b'"' + b"a" * 1_048_576 + b'"', 413)],
)
async def test_body_that_is_no_small_object_is_refused(
    admin: AdminSide, content: bytes, status: int
) -> None:
    assert (await admin.client.post("/v1/admin/keys", content=content)).status_code == status


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("rotate", {"grace_s": -1}),
        ("rotate", {"grace_s": "1"}),
        ("rotate", {"grace": 1}),
        ("rotate", {"expires_in_s": 0}),
        ("rotate", {"expires_in_s": 0.5}),
        ("rotate", {"expires_in_s": "1"}),
        ("revoke", {"at": 1}),
        ("limits", {}),
        ("limits", {"rpm": "1"}),
        ("limits", {"rpm": 0}),
        ("limits", {"name": "a"}),
    ],
)
async def test_change_that_cannot_be_is_a_400(
    admin: AdminSide, path: str, body: dict[str, Any]
) -> None:
    method = "PATCH" if path == "limits" else "POST"
    before = await admin.keys.list()
    response = await admin.client.request(method, f"/v1/admin/keys/{admin.kid}/{path}", json=body)
    assert response.status_code == 400, response.text
    assert await admin.keys.list() == before


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "limit=1001", "after=nobody", "after=%00", "page=2"]
)
async def test_list_refuses_what_it_does_not_know(admin: AdminSide, query: str) -> None:
    response = await admin.client.get(f"/v1/admin/keys?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == query.partition("=")[0]


async def test_database_that_fails_is_a_503_that_says_nothing_of_it(admin: AdminSide) -> None:
    admin.database.rename(admin.database.with_suffix(".aside"))
    admin.database.mkdir()
    for response in (
        await admin.client.get("/v1/admin/keys"),
        await admin.client.post("/v1/admin/keys", json={"name": "a"}),
        await admin.client.get("/v1/organization/usage/embeddings?start_time=0"),
    ):
        assert response.status_code == 503
        assert response.headers["retry-after"]
        assert "unable to open" not in response.text


async def test_key_is_told_though_the_servers_could_not_be(admin: AdminSide) -> None:
    async def untold() -> None:
        raise StoreUnavailable("gone")

    admin.app.state.administration = replace(admin.app.state.administration, changed=untold)
    made = await admin.create()
    await admin.watch.refresh()
    assert admin.authenticator.authenticate(made["key"]).kid == made["id"]


async def test_missing_pepper_is_a_defect_of_the_server(admin: AdminSide) -> None:
    def missing() -> Any:
        raise PepperMissing("no pepper")

    admin.app.state.administration = replace(admin.app.state.administration, peppers=missing)
    response = await admin.client.post("/v1/admin/keys", json={"name": "a"})
    assert response.status_code == 500
    assert await admin.keys.count() == 1


async def test_administrators_use_is_noted_and_a_strangers_is_not(admin: AdminSide) -> None:
    await admin.stranger.get("/v1/admin/keys")
    assert not admin.callers
    await admin.client.get("/v1/admin/keys")
    assert [caller.kid for caller in admin.callers] == [admin.kid]
