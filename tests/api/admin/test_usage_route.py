"""GET /v1/organization/usage/embeddings, in OpenAI's shape."""

import time
from typing import Any

import openai
import pytest
from admin_side import AdminSide

from auth.calendar import DAY_S
from auth.usage.count import Batch, Count, Use

URL = "/v1/organization/usage/embeddings"
START = 1_798_675_200  # 2026-12-31T00:00:00Z
ONE, TWO = "1" * 12, "2" * 12


@pytest.fixture(autouse=True)
async def _used(admin: AdminSide) -> None:
    counts = {
        Use(20_261_231, ONE, "shop", "m", "embed"): Count(1, 10),
        Use(20_261_231, ONE, "shop", "n", "embed"): Count(2, 20),
        Use(20_261_231, TWO, "", "m", "embed"): Count(4, 40),
        Use(20_261_231, ONE, "shop", "m", "rerank"): Count(100, 1_000),
        Use(20_270_102, "", "", "m", "embed"): Count(8, 80),
    }
    await admin.usage.add(Batch("a" * 32, 1, START, counts, {}))


async def get(admin: AdminSide, **query: Any) -> dict[str, Any]:
    params = {"start_time": START, "end_time": START + 3 * DAY_S} | query
    response = await admin.client.get(URL, params=params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def result(**values: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("project_id", "user_id", "api_key_id", "model"))
    return {"object": "organization.usage.embeddings.result"} | nothing | values


async def test_every_day_is_a_bucket_with_what_embeddings_took(admin: AdminSide) -> None:
    page = await get(admin)
    day, next_day, last = page.pop("data")
    assert page == {"object": "page", "has_more": False, "next_page": None}
    assert day == {
        "object": "bucket",
        "start_time": START,
        "end_time": START + DAY_S,
        "results": [result(num_model_requests=7, input_tokens=70)],
    }
    assert (next_day["start_time"], next_day["results"]) == (START + DAY_S, [])
    assert last["results"] == [result(num_model_requests=8, input_tokens=80)]


async def test_what_is_not_grouped_by_is_null(admin: AdminSide) -> None:
    page = await get(admin, **{"group_by[]": ["api_key_id", "model"]})
    assert page["data"][0]["results"] == [
        result(api_key_id=ONE, model="m", num_model_requests=1, input_tokens=10),
        result(api_key_id=ONE, model="n", num_model_requests=2, input_tokens=20),
        result(api_key_id=TWO, model="m", num_model_requests=4, input_tokens=40),
    ]
    # The anonymous are no key, and a key may have no project.
    (anonymous,) = page["data"][2]["results"]
    assert anonymous == result(model="m", num_model_requests=8, input_tokens=80)
    by_project = (await get(admin, group_by=["project_id", "user_id"]))["data"][0]["results"]
    assert [(row["project_id"], row["user_id"]) for row in by_project] == [
        (None, None),
        ("shop", None),
    ]


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ({"api_key_ids": [ONE]}, 30),
        ({"api_key_ids[]": [ONE, TWO]}, 70),
        ({"models": ["n"]}, 20),
        ({"project_ids": ["shop"], "models": ["m"]}, 10),
        ({"models": ["o"]}, None),
    ],
)
async def test_usage_may_be_filtered(
    admin: AdminSide, query: dict[str, Any], tokens: int | None
) -> None:
    results = (await get(admin, **query))["data"][0]["results"]
    assert [row["input_tokens"] for row in results] == ([] if tokens is None else [tokens])


async def test_pages_hold_every_day_once(admin: AdminSide) -> None:
    days: list[int] = []
    tokens = 0
    page: dict[str, Any] = {"next_page": None, "has_more": True}
    while page["has_more"]:
        more = {"page": page["next_page"]} if page["next_page"] else {}
        page = await get(admin, limit=2, end_time=START + 5 * DAY_S - 1, **more)
        days += [bucket["start_time"] for bucket in page["data"]]
        tokens += sum(row["input_tokens"] for b in page["data"] for row in b["results"])
    assert days == [START + number * DAY_S for number in range(5)]
    assert tokens == 150


async def test_a_page_holds_7_days_unless_told_otherwise(admin: AdminSide) -> None:
    assert len((await get(admin, end_time=START + 90 * DAY_S))["data"]) == 7
    assert len((await get(admin, end_time=START + 90 * DAY_S, limit=31))["data"]) == 31


async def test_days_are_whole_and_the_last_is_today(admin: AdminSide) -> None:
    page = await get(admin, start_time=START + 5, end_time=START + DAY_S + 1)
    assert [bucket["start_time"] for bucket in page["data"]] == [START, START + DAY_S]
    now = int(time.time())
    response = await admin.client.get(URL, params={"start_time": now - DAY_S})
    assert response.json()["data"][-1]["start_time"] in (
        now // DAY_S * DAY_S,
        time.time() // DAY_S * DAY_S,  # it was midnight meanwhile
    )


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"start_time": None}, "start_time"),
        ({"start_time": "yesterday"}, "start_time"),
        ({"start_time": -1}, "start_time"),
        ({"start_time": 10**15}, "start_time"),
        ({"end_time": START}, "end_time"),
        ({"end_time": 253_402_300_799}, "end_time"),
        ({"bucket_width": "1h"}, "bucket_width"),
        ({"limit": 0}, "limit"),
        ({"limit": 32}, "limit"),
        ({"group_by": "colour"}, "group_by"),
        ({"user_ids": ["ada"]}, "user_ids"),
        ({"page": "page_"}, "page"),
        ({"page": "ü"}, "page"),
        ({"page": "page_OTk5OTk5OTk5OTk5"}, "page"),
        ({"page": "page_MTU"}, "page"),
    ],
)
async def test_question_that_cannot_be_answered_is_a_400(
    admin: AdminSide, query: dict[str, Any], param: str
) -> None:
    asked = {"start_time": START, "end_time": START + DAY_S} | query
    params = {name: value for name, value in asked.items() if value is not None}
    response = await admin.client.get(URL, params=params)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param), response.text


async def test_farthest_days_are_answered(admin: AdminSide) -> None:
    latest = 253_402_300_799 - 32 * DAY_S
    for start in (0, latest - 60 * DAY_S, latest - 1):
        assert (await get(admin, start_time=start, end_time=latest, limit=31))["data"]


async def test_openai_sdk_reads_it(admin: AdminSide) -> None:
    sdk = openai.AsyncOpenAI(
        base_url="http://admin/v1",
        admin_api_key=admin.client.headers["authorization"].removeprefix("Bearer "),
        http_client=admin.client_of(None),
    )
    page = await sdk.admin.organization.usage.embeddings(
        start_time=START, end_time=START + 2 * DAY_S, group_by=["model"], models=["m"]
    )
    (row,) = page.data[0].results
    assert (row.num_model_requests, row.input_tokens, row.model) == (5, 50, "m")
