"""The store of keys, on SQLite and on PostgreSQL."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hand_clock import HandClock
from raw_sql import execute, multiply_keys

from auth import rows
from auth.errors import KeyRefused, PepperMismatch, StoreUnavailable, UnknownKey, UnknownProject
from auth.key import parse_key
from auth.pepper import Peppers
from auth.record import KeyRecord, Limits, NewKey, Rotation
from auth.store import KeyStore

FULL = NewKey(
    name="search",
    owner="ada@example.org",
    project="shop",
    env="test",
    scopes=frozenset({"embed", "admin"}),
    models=frozenset({"b", "a"}),
    lane="bulk",
    limits=Limits(
        rpm=60, tpm=2**40, max_concurrency=4, burst_s=1.5, daily_tokens=1, monthly_tokens=10**15
    ),
    expires_at=1_900_000_000,
)


async def test_a_key_comes_back_as_it_was_made(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    key, record = await store.create(FULL, peppers)
    assert {name: getattr(record, name) for name in vars(FULL)} == vars(FULL)
    assert parse_key(key).kid == record.kid
    assert parse_key(key).env == "test"
    assert record.digest == peppers.digest(key, record.pv)
    assert (record.created_at, record.revoked_at, record.last_used_at) == (clock.now, None, None)
    assert await store.list() == [record]
    assert (await store.snapshot()).keys == {record.kid: record}


async def test_a_key_made_by_name_alone_may_embed_and_rerank_without_limits(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    _, made = await store.create(NewKey(name="a"), peppers)
    [record] = await store.list()
    assert record == made
    assert record.scopes == {"embed", "rerank"}
    assert record.limits == Limits()
    assert (record.env, record.models, record.lane, record.expires_at) == ("live", None, None, None)


@pytest.mark.parametrize(
    "refused",
    [
        NewKey(name=" "),
        NewKey(name="a", env="Live"),
        NewKey(name="a", scopes=frozenset()),
        NewKey(name="a", scopes=frozenset({"embed", "root"})),
        NewKey(name="a", models=frozenset()),
        NewKey(name="a", lane="fast"),  # type: ignore[arg-type]
        NewKey(name="a", owner=" "),
        NewKey(name="a", project=""),
        NewKey(name="a", project="\0"),
        NewKey(name="a" * 257),
        NewKey(name="a", models=frozenset({""})),
        NewKey(name="a", expires_at=2**60),
        NewKey(name="a", expires_at=1_700_000_000 - 86_400),
        NewKey(name="a", limits=Limits(rpm=0)),
        NewKey(name="a", limits=Limits(rpm=10**9 + 1)),
        NewKey(name="a", limits=Limits(tpm=10**15 + 1)),
        NewKey(name="a", limits=Limits(daily_tokens=1.5)),  # type: ignore[arg-type]
        NewKey(name="a", limits=Limits(burst_s=float("nan"))),
        NewKey(name="a", limits=Limits(burst_s=float("inf"))),
        NewKey(name="a", limits=Limits(burst_s=-1.0)),
    ],
)
async def test_a_key_outside_its_range_is_not_made(
    store: KeyStore, peppers: Peppers, refused: NewKey
) -> None:
    await store.migrate()
    with pytest.raises(KeyRefused):
        await store.create(refused, peppers)
    assert await store.count() == 0


async def test_every_write_raises_the_revision(store: KeyStore, peppers: Peppers) -> None:
    await store.migrate()
    seen = [await store.revision()]
    _, record = await store.create(NewKey(name="a"), peppers)
    seen.append(await store.revision())
    await store.revoke(record.kid)
    seen.append(await store.revision())
    assert seen == [0, 1, 2]
    assert (await store.snapshot()).revision == 2


async def test_of_a_known_snapshot_only_the_changed_keys_are_read(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    _, kept = await store.create(NewKey(name="kept"), peppers)
    _, revoked = await store.create(NewKey(name="revoked"), peppers)
    known = await store.snapshot()
    await store.revoke(revoked.kid)
    _, added = await store.create(NewKey(name="added"), peppers)
    snapshot = await store.snapshot(known)
    assert snapshot == await store.snapshot()
    assert snapshot.keys.keys() == {kept.kid, revoked.kid, added.kid}
    assert snapshot.keys[kept.kid] is known.keys[kept.kid]
    assert snapshot.keys[revoked.kid].revoked_at is not None
    assert known.keys[revoked.kid].revoked_at is None


async def test_a_revoked_key_keeps_its_row_and_its_first_time(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    _, record = await store.create(NewKey(name="a"), peppers)
    first = await store.revoke(record.kid)
    clock.now += 60
    assert await store.revoke(record.kid) == first
    assert first.revoked_at == clock.now - 60
    assert not first.active(clock.now)
    assert await store.count() == 1


async def test_revoking_what_is_not_there_changes_nothing(store: KeyStore) -> None:
    await store.migrate()
    with pytest.raises(UnknownKey):
        await store.revoke("0123456789ab")
    assert await store.revision() == 0


async def test_another_pepper_of_the_same_version_makes_no_keys(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    with pytest.raises(PepperMismatch):
        await store.create(NewKey(name="b"), Peppers.generate())
    assert [record.name for record in await store.list()] == ["a"]
    assert await store.revision() == 1


async def test_two_keys_of_a_project_share_its_row(
    store: KeyStore, database_url: str, peppers: Peppers
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a", project="shop"), peppers)
    await store.create(NewKey(name="b", project="shop"), peppers)
    assert await execute(database_url, "SELECT name, rpm FROM projects") == [("shop", None)]


async def test_two_stores_on_one_file_lose_no_write(
    store: KeyStore, database_url: str, peppers: Peppers
) -> None:
    await store.migrate()
    other = KeyStore(database_url)
    await asyncio.gather(
        *(s.create(NewKey(name=str(n)), peppers) for n in range(8) for s in (store, other))
    )
    assert await store.count() == await other.count() == 16
    assert await store.revision() == 16
    assert await other.snapshot() == await store.snapshot()
    await other.close()


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "sqlite://", "sqlite+aiosqlite:///:memory:", "oops://u:hunter2@h/d"],
)
def test_a_url_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        KeyStore(url)
    assert "hunter2" not in str(raised.value)


async def test_while_many_write_a_reader_misses_no_revision(
    store: KeyStore, database_url: str, peppers: Peppers
) -> None:
    await store.migrate()
    writers = [KeyStore(database_url) for _ in range(4)]
    written = asyncio.gather(
        *(writer.create(NewKey(name=str(n)), peppers) for n in range(10) for writer in writers)
    )
    known, steps = await store.snapshot(), 0
    while not written.done():
        known = await store.snapshot(known)
        # Every key raised the revision by one: those up to a revision are all there.
        assert len(known.keys) >= known.revision
        steps += 1
    await written
    print(f"\n40 keys by 4 writers, read {steps} times meanwhile")
    assert steps > 1
    assert await store.snapshot(known) == await store.snapshot()
    assert (await store.snapshot()).revision == 40
    for writer in writers:
        await writer.close()


async def test_an_expiry_of_nothing_makes_no_key(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    with pytest.raises(KeyRefused, match="expires_at: a time to come"):
        await store.create(NewKey(name="a", expires_at=int(clock.now)), peppers)
    assert await store.count() == 0
    await store.create(NewKey(name="a", expires_at=int(clock.now) + 1), peppers)


async def test_pages_hold_each_key_once_in_the_order_of_the_whole(
    store: KeyStore, clock: HandClock, peppers: Peppers
) -> None:
    await store.migrate()
    for number in range(7):
        clock.now += number // 3  # several of one second
        await store.create(NewKey(name=str(number)), peppers)
    paged, after, more = [], None, True
    while more:
        page, more = await store.page(3, after)
        paged += page
        after = page[-1].kid
    assert paged == await store.list()
    assert await store.page(7) == (paged, False)
    assert await store.page(3, after) == ([], False)
    with pytest.raises(UnknownKey):
        await store.page(3, "0123456789ab")


@pytest.mark.parametrize("text", ["\0", "a\0b", "\udcff"])
async def test_text_that_no_database_holds_names_nothing(
    store: KeyStore, peppers: Peppers, text: str
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a", project="shop"), peppers)
    with pytest.raises(UnknownKey):
        await store.get(text)
    with pytest.raises(UnknownKey):
        await store.page(1, text)
    with pytest.raises(UnknownKey):
        await store.rotate(text, peppers, Rotation(60))
    with pytest.raises(UnknownKey):
        await store.revoke(text)
    with pytest.raises(UnknownKey):
        await store.set_limits(text, {"rpm": 1})
    with pytest.raises(UnknownProject):
        await store.set_project_limits(text, {"rpm": 1})


async def test_many_keys_are_read_with_turns_for_others_between(
    store: KeyStore, database_url: str, peppers: Peppers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.migrate()
    await store.create(NewKey(name="a"), peppers)
    await multiply_keys(database_url, 5_000)
    turn = 0
    read: Counter[int] = Counter()
    record_of = rows._record_of

    def counted(row: Any) -> KeyRecord:
        read[turn] += 1
        return record_of(row)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    monkeypatch.setattr(rows, "_record_of", counted)
    others = asyncio.create_task(count_turns())
    snapshot = await store.snapshot()
    assert len(snapshot.keys) == read.total() == 5_001
    assert max(read.values()) <= 200
    read.clear()
    page, more = await store.page(10)
    assert (len(page), more, read.total()) == (10, True, 11)
    read.clear()
    await store.snapshot(snapshot)
    others.cancel()
    assert not read
