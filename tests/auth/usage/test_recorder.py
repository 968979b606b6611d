"""What a gateway counts, and when it is written."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hand_clock import HandClock
from usage_callers import caller, key, project

from auth.calendar import DAY_S, day_of, days_after, first_day, start_of
from auth.database import sqlite_url
from auth.pepper import Peppers
from auth.principal import ANONYMOUS
from auth.record import NewKey
from auth.store import KeyStore
from auth.usage.query import UsageQuery, UsageTotal
from auth.usage.recorder import UsageRecorder
from auth.usage.store import UsageStore
from observability.logs import configure_logs

WaitUntil = Callable[..., Awaitable[None]]

ONE, TWO = "1" * 12, "2" * 12
MIDNIGHT = 1_800_057_600  # 2027-01-16T00:00:00Z
NEW_YEAR = 1_798_761_600  # 2027-01-01T00:00:00Z


@pytest.fixture
def recorder(usage: UsageStore, clock: HandClock) -> UsageRecorder:
    return UsageRecorder(usage, now=clock)


async def test_every_request_is_counted_by_day_key_project_model_and_kind(
    recorder: UsageRecorder, usage: UsageStore, clock: HandClock
) -> None:
    clock.now = MIDNIGHT - 1
    recorder.record(caller(ONE, "shop"), "m", "embed", 3)
    recorder.record(caller(ONE, "shop"), "m", "embed", 4)
    recorder.record(caller(ONE, "shop"), "m", "rerank", 5)
    recorder.record(ANONYMOUS, "m", "embed", 6)
    clock.now = MIDNIGHT
    recorder.record(caller(ONE, "shop"), "m", "embed", 7)
    await recorder.flush()
    totals = await usage.totals(UsageQuery(by=("day", "key", "project", "model", "kind")))
    assert [tuple(vars(total).values()) for total in totals] == [
        (20_270_115, "", "", "m", "embed", 1, 6),
        (20_270_115, ONE, "shop", "m", "embed", 2, 7),
        (20_270_115, ONE, "shop", "m", "rerank", 1, 5),
        (20_270_116, ONE, "shop", "m", "embed", 1, 7),
    ]


async def test_last_use_of_a_key_is_told_whatever_came_of_the_request(
    recorder: UsageRecorder, store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    _, used = await store.create(NewKey(name="used"), peppers)
    _, refused = await store.create(NewKey(name="refused"), peppers)
    _, unused = await store.create(NewKey(name="unused"), peppers)
    recorder.seen(caller(used.kid))
    recorder.record(caller(used.kid), "m", "embed", 1)
    recorder.seen(caller(refused.kid))
    recorder.seen(ANONYMOUS)
    await recorder.flush()
    assert [record.last_used_at for record in await store.list()] == [
        {used.kid: clock.now, refused.kid: clock.now, unused.kid: None}[record.kid]
        for record in await store.list()
    ]


async def test_what_was_used_holds_what_is_written_and_what_is_not(
    recorder: UsageRecorder, clock: HandClock
) -> None:
    clock.now = MIDNIGHT - 1
    recorder.record(caller(ONE, "shop"), "m", "embed", 1)
    clock.now = MIDNIGHT
    recorder.record(caller(ONE, "shop"), "m", "rerank", 2)
    await recorder.flush()
    recorder.record(caller(ONE, "shop"), "n", "embed", 4)
    recorder.record(caller(TWO, "shop"), "n", "embed", 8)
    assert recorder.pending(key(ONE), "daily") == 4
    assert await recorder.used(key(ONE), "daily") == 6
    assert await recorder.used(key(ONE), "monthly") == 7
    assert await recorder.used(project("shop"), "monthly") == 15
    assert await recorder.used(project("other"), "monthly") == 0
    clock.now = NEW_YEAR + 31 * DAY_S
    assert await recorder.used(key(ONE), "monthly") == recorder.pending(key(ONE), "monthly") == 0


async def test_usage_is_written_while_it_runs_and_once_more_at_the_end(
    usage: UsageStore, wait_until: WaitUntil
) -> None:
    recorder = UsageRecorder(usage, flush_s=0.01)
    running = asyncio.create_task(recorder.run())
    recorder.record(caller(ONE), "m", "embed", 1)
    await wait_until(lambda: recorder.pending(key(ONE), "daily") == 0)
    recorder.record(caller(ONE), "m", "embed", 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=2, tokens=3)]


async def test_stop_amid_the_first_interval_loses_nothing(usage: UsageStore) -> None:
    recorder = UsageRecorder(usage)
    running = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    recorder.record(caller(ONE), "m", "embed", 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=1, tokens=2)]


async def test_rows_beyond_the_bound_are_dropped_and_told(usage: UsageStore) -> None:
    told: list[str] = []
    recorder = UsageRecorder(usage, max_rows=2, on_event=told.append)
    for model, tokens in (("a", 1), ("b", 2), ("c", 4), ("a", 8)):
        recorder.record(caller(ONE), model, "embed", tokens)
    await recorder.flush()
    recorder.record(caller(ONE), "c", "embed", 16)
    await recorder.flush()
    assert told == ["dropped"]
    totals = await usage.totals(UsageQuery(by=("model",)))
    assert {total.model: total.tokens for total in totals} == {"a": 9, "b": 2, "c": 16}


async def test_before_the_first_key_usage_is_kept_and_no_file_is_made(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "data" / "florilege.db")
    usage, store = UsageStore(url), KeyStore(url)
    recorder = UsageRecorder(usage)
    recorder.record(ANONYMOUS, "m", "embed", 3)
    await recorder.flush()
    assert await recorder.used(key(ONE), "daily") == 0
    assert list(tmp_path.iterdir()) == []
    await store.migrate()
    await recorder.flush()
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=1, tokens=3)]
    await usage.close()
    await store.close()


async def test_defect_of_the_store_is_logged_by_its_place_and_does_not_end_the_run(
    wait_until: WaitUntil,
) -> None:
    class Broken(UsageStore):
        async def add(self, batch: object) -> None:
            raise ValueError("a secret")

    output = io.StringIO()
    configure_logs(stream=output)
    told: list[str] = []
    broken = Broken(sqlite_url(Path(__file__)))  # a file that exists
    recorder = UsageRecorder(broken, flush_s=0.001, on_event=told.append)
    recorder.record(caller(ONE), "m", "embed", 1)
    running = asyncio.create_task(recorder.run())
    await wait_until(lambda: len(told) > 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["usage_flush_failed", "usage_lost"]
    assert (lines[0]["error"], lines[1]["requests"]) == ("ValueError", 1)
    assert "secret" not in output.getvalue()


@pytest.mark.parametrize(
    ("moment", "day"),
    [(0, 19_700_101), (NEW_YEAR - 1, 20_261_231), (NEW_YEAR, 20_270_101), (MIDNIGHT, 20_270_116)],
)
def test_days_are_those_of_utc(moment: int, day: int) -> None:
    assert day_of(moment) == day
    assert start_of(day) == moment // DAY_S * DAY_S
    assert days_after(day, 1) == day_of(moment + DAY_S)
    assert first_day("daily", moment) == day
    assert first_day("monthly", moment) == day - day % 100 + 1
