"""Usage in SQL, on both databases."""

import asyncio
from pathlib import Path

from raw_sql import execute
from usage_callers import key, project

from auth.database import sqlite_url
from auth.pepper import Peppers
from auth.record import NewKey
from auth.store import KeyStore
from auth.usage.count import Batch, Count, Use
from auth.usage.query import UsageQuery, UsageTotal
from auth.usage.store import FORGET_GATEWAY_S, ROWS_AT_ONCE, UsageStore

NOW = 1_800_000_000
DAY = 20_270_115
ONE, TWO = "1" * 12, "2" * 12


def batch(
    *uses: tuple[Use, int], gateway: str = "a" * 32, sequence: int = 1, at: int = NOW
) -> Batch:
    return Batch(gateway, sequence, at, {use: Count(1, tokens) for use, tokens in uses}, {})


def use(day: int = DAY, kid: str = ONE, model: str = "m", kind: str = "embed") -> Use:
    return Use(day, kid, "shop" if kid == ONE else "", model, kind)


async def test_counts_are_added_up_over_batches_and_gateways(usage: UsageStore) -> None:
    await usage.add(batch((use(), 10)))
    await usage.add(batch((use(), 5), (use(kid=TWO), 7), sequence=2))
    await usage.add(batch((use(), 2**40), gateway="b" * 32))
    assert await usage.totals(UsageQuery(by=("key", "model"))) == [
        UsageTotal(key=ONE, model="m", requests=3, tokens=15 + 2**40),
        UsageTotal(key=TWO, model="m", requests=1, tokens=7),
    ]


async def test_a_batch_that_was_added_is_not_added_again(usage: UsageStore) -> None:
    first, second = batch((use(), 1)), batch((use(), 1), sequence=2)
    for again in (first, first, second, second, first):
        await usage.add(again)
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=2, tokens=2)]


async def test_usage_is_grouped_and_filtered_by_each_of_its_columns(usage: UsageStore) -> None:
    await usage.add(
        batch(
            (use(), 1),
            (use(day=DAY + 1), 2),
            (use(kid=TWO), 4),
            (use(model="n"), 8),
            (use(kind="rerank"), 16),
        )
    )

    async def tokens(query: UsageQuery) -> list[int]:
        return [total.tokens for total in await usage.totals(query)]

    assert await tokens(UsageQuery(by=("day",))) == [29, 2]
    assert await tokens(UsageQuery(by=("key",))) == [27, 4]
    assert await tokens(UsageQuery(by=("project",))) == [4, 27]
    assert await tokens(UsageQuery(by=("model",))) == [23, 8]
    assert await tokens(UsageQuery(by=("kind",))) == [15, 16]
    assert await tokens(UsageQuery(since=DAY + 1)) == [2]
    assert await tokens(UsageQuery(until=DAY + 1)) == [29]
    assert await tokens(UsageQuery(keys=frozenset({TWO, "3" * 12}))) == [4]
    assert await tokens(UsageQuery(projects=frozenset({"shop"}))) == [27]
    assert await tokens(UsageQuery(models=frozenset({"n"}))) == [8]
    assert await tokens(UsageQuery(kind="rerank")) == [16]
    assert await tokens(UsageQuery(models=frozenset())) == []
    # Text that no database holds.
    assert await tokens(UsageQuery(models=frozenset({"\0"}), keys=frozenset({"\udcff"}))) == []
    assert await tokens(UsageQuery(models=frozenset({"n", "n\0"}))) == [8]


async def test_tokens_of_a_key_and_of_a_project_since_a_day(usage: UsageStore) -> None:
    await usage.add(batch((use(), 1), (use(day=DAY + 1), 2), (use(kid=TWO), 4)))
    assert await usage.tokens_of(key(ONE), DAY) == 3
    assert await usage.tokens_of(key(ONE), DAY + 1) == 2
    assert await usage.tokens_of(project("shop"), DAY) == 3
    assert await usage.tokens_of(project("other"), DAY) == 0


async def test_last_use_only_grows_and_leaves_the_revision(
    usage: UsageStore, store: KeyStore, peppers: Peppers
) -> None:
    _, record = await store.create(NewKey(name="a"), peppers)
    revision = await store.revision()
    for sequence, at in ((1, NOW + 5), (2, NOW)):
        await usage.add(Batch("a" * 32, sequence, at, {}, {record.kid: at, "unknown-key-": at}))
    assert (await store.get(record.kid)).last_used_at == NOW + 5
    assert await store.revision() == revision


async def test_gateways_that_add_to_the_same_rows_lose_nothing(
    usage: UsageStore, database_url: str
) -> None:
    stores = [usage, *(UsageStore(database_url) for _ in range(3))]
    models = [f"m{number}" for number in range(20)]

    async def add_all(number: int) -> None:
        # In another order each: rows that are locked crosswise would be a deadlock.
        mine = models[number * 5 :] + models[: number * 5]
        for sequence in range(1, 11):
            uses = [(use(model=model), 1) for model in mine]
            gateway = str(number) * 32
            await stores[number].add(batch(*uses, gateway=gateway, sequence=sequence))

    await asyncio.gather(*map(add_all, range(4)))
    totals = await usage.totals(UsageQuery(by=("model",)))
    assert [(total.requests, total.tokens) for total in totals] == [(40, 40)] * 20
    for other in stores[1:]:
        await other.close()


async def test_batch_of_any_size_is_added_whole(
    usage: UsageStore, store: KeyStore, peppers: Peppers
) -> None:
    made = [(await store.create(NewKey(name=str(number)), peppers))[1].kid for number in range(3)]
    kids = [f"{number:012x}" for number in range(2 * ROWS_AT_ONCE)]
    last_used = dict.fromkeys([*made, *kids], NOW)
    counts = {use(kid=kid): Count(1, 2) for kid in last_used}
    await usage.add(Batch("a" * 32, 1, NOW, counts, last_used))
    size = 2 * ROWS_AT_ONCE + 3
    assert await usage.totals(UsageQuery()) == [UsageTotal(requests=size, tokens=2 * size)]
    assert [record.last_used_at for record in await store.list()] == [NOW] * 3


async def test_gateways_that_ended_long_ago_are_forgotten(
    usage: UsageStore, database_url: str
) -> None:
    await usage.add(batch((use(), 1), gateway="a" * 32))
    await usage.add(batch((use(), 1), gateway="b" * 32, at=NOW + FORGET_GATEWAY_S))
    await usage.add(batch((use(), 1), gateway="c" * 32, at=NOW + FORGET_GATEWAY_S + 1))
    rows = await execute(database_url, "SELECT gateway FROM usage_flushes ORDER BY gateway")
    assert rows == [("b" * 32,), ("c" * 32,)]


async def test_without_a_file_there_is_no_usage_and_none_is_made(tmp_path: Path) -> None:
    usage = UsageStore(sqlite_url(tmp_path / "data" / "florilege.db"))
    assert not usage.exists()
    assert await usage.totals(UsageQuery(by=("key",))) == []
    assert await usage.tokens_of(key(ONE), DAY) == 0
    assert list(tmp_path.iterdir()) == []
    await usage.close()
