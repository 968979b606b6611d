"""Keys that are rotated, limited and used; projects; and the log of who did it."""

import asyncio
import json
from dataclasses import replace

import pytest
from hand_clock import HandClock
from key_server import KeyServer
from raw_sql import execute

from auth.errors import KeyRefused, PepperMismatch, UnknownKey, UnknownProject
from auth.key import parse_key
from auth.pepper import Peppers
from auth.record import KeyRecord, Limits, NewKey, Rotation
from auth.store import KeyStore

SHOP = NewKey(
    name="search",
    owner="ada@example.org",
    project="shop",
    env="test",
    models=frozenset({"m"}),
    limits=Limits(rpm=60),
)


def settings_of(record: KeyRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in vars(SHOP)}


class TestRotation:
    async def test_the_new_key_has_the_settings_of_the_old_which_ends_with_its_grace(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        old_key, old = await store.create(SHOP, peppers)
        new_key, new = await store.rotate(old.kid, peppers, Rotation(60.5))
        assert settings_of(new) == vars(SHOP)
        assert (new.replaces, new.kid == old.kid, new_key == old_key) == (old.kid, False, False)
        assert parse_key(new_key).env == "test"
        assert await store.get(new.kid) == new
        assert await store.get(old.kid) == replace(old, expires_at=int(clock.now) + 60)

    async def test_both_keys_are_admitted_during_the_grace_and_one_after(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        old_key, old = await store.create(SHOP, peppers)
        server = KeyServer(store, lambda: peppers, now=clock)
        await server.watch.refresh()
        new_key, _ = await store.rotate(old.kid, peppers, Rotation(60))
        await server.watch.refresh()
        assert server.admits(old_key)
        assert server.admits(new_key)
        clock.now += 60
        assert not server.admits(old_key)
        assert server.admits(new_key)

    async def test_a_grace_never_lengthens_a_life(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        soon = int(clock.now) + 5
        _, old = await store.create(replace(SHOP, expires_at=soon), peppers)
        await store.rotate(old.kid, peppers, Rotation(60))
        assert (await store.get(old.kid)).expires_at == soon

    async def test_the_new_key_lives_as_long_as_the_old_one_was_to_live(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        life_s = 90 * 86_400
        _, old = await store.create(replace(SHOP, expires_at=int(clock.now) + life_s), peppers)
        clock.now += life_s - 10
        _, new = await store.rotate(old.kid, peppers, Rotation(60))
        assert new.expires_at == int(clock.now) + life_s
        _, newer = await store.rotate(new.kid, peppers, Rotation(60, expires_in_s=7))
        assert newer.expires_at == int(clock.now) + 7
        _, newest = await store.rotate(newer.kid, peppers, Rotation(60))
        assert newest.expires_at == int(clock.now) + 7

    async def test_a_key_without_expiry_has_a_successor_without_one_unless_told(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, old = await store.create(SHOP, peppers)
        _, new = await store.rotate(old.kid, peppers, Rotation(60))
        assert new.expires_at is None
        _, newer = await store.rotate(new.kid, peppers, Rotation(60, expires_in_s=86_400))
        assert newer.expires_at == int(clock.now) + 86_400

    @pytest.mark.parametrize("life_s", [0.0, 0.5, -1.0, float("nan"), float("inf")])
    async def test_a_successor_that_would_be_dead_is_refused(
        self, store: KeyStore, peppers: Peppers, life_s: float
    ) -> None:
        await store.migrate()
        _, old = await store.create(SHOP, peppers)
        with pytest.raises(KeyRefused, match="expires_in_s"):
            await store.rotate(old.kid, peppers, Rotation(60, life_s))
        assert await store.list() == [old]

    async def test_what_cannot_be_rotated_is_left_as_it_was(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, revoked = await store.create(SHOP, peppers)
        await store.revoke(revoked.kid)
        _, expired = await store.create(replace(SHOP, expires_at=int(clock.now) + 1), peppers)
        clock.now += 1
        _, rotated = await store.create(SHOP, peppers)
        _, new = await store.rotate(rotated.kid, peppers, Rotation(60))
        before = await store.list()
        for kid in (revoked.kid, expired.kid, rotated.kid):
            with pytest.raises(KeyRefused):
                await store.rotate(kid, peppers, Rotation(60))
        for grace_s in (-1.0, float("nan"), 1e18):
            with pytest.raises(KeyRefused, match="grace"):
                await store.rotate(new.kid, peppers, Rotation(grace_s))
        with pytest.raises(UnknownKey):
            await store.rotate("0123456789ab", peppers, Rotation(60))
        with pytest.raises(PepperMismatch):
            await store.rotate(new.kid, Peppers.generate(), Rotation(60))
        assert await store.list() == before

    async def test_of_two_who_rotate_a_key_at_once_one_succeeds(
        self, store: KeyStore, database_url: str, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, old = await store.create(SHOP, peppers)
        other = KeyStore(database_url)
        results = await asyncio.gather(
            store.rotate(old.kid, peppers, Rotation(60)),
            other.rotate(old.kid, peppers, Rotation(60)),
            return_exceptions=True,
        )
        await other.close()
        assert sorted(isinstance(result, KeyRefused) for result in results) == [False, True]
        assert await store.count() == 2


class TestLimits:
    async def test_what_is_named_changes_and_the_rest_stays(
        self, store: KeyStore, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, record = await store.create(SHOP, peppers)
        changed = await store.set_limits(record.kid, {"rpm": None, "tpm": 10, "burst_s": 1.5})
        assert changed.limits == Limits(tpm=10, burst_s=1.5)
        assert await store.get(record.kid) == changed

    async def test_a_project_has_limits_of_its_own(self, store: KeyStore, peppers: Peppers) -> None:
        await store.migrate()
        await store.create(SHOP, peppers)
        assert await store.projects() == {"shop": Limits()}
        limits = await store.set_project_limits("shop", {"monthly_tokens": 10**15})
        assert limits == Limits(monthly_tokens=10**15)
        assert await store.projects() == {"shop": limits}
        assert (await store.snapshot()).projects == {"shop": limits}

    async def test_limits_of_one_project_are_those_of_no_other(
        self, store: KeyStore, peppers: Peppers
    ) -> None:
        await store.migrate()
        for project in ("lab", "shop", "zoo"):
            await store.create(replace(SHOP, project=project), peppers)
        await store.set_project_limits("lab", {"tpm": 5})
        await store.set_project_limits("shop", {"rpm": 7})
        limits = {"lab": Limits(tpm=5), "shop": Limits(rpm=7), "zoo": Limits()}
        assert await store.projects() == limits
        assert (await store.snapshot()).projects == limits

    async def test_limits_of_one_key_are_those_of_no_other(
        self, store: KeyStore, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, one = await store.create(SHOP, peppers)
        _, other = await store.create(SHOP, peppers)
        await store.set_limits(one.kid, {"rpm": 7})
        await store.revoke(one.kid)
        assert await store.get(other.kid) == other

    @pytest.mark.parametrize("changes", [{"rpm": 0}, {"rpm": 1.5}, {"colour": 1}, {"rpm": 2**31}])
    async def test_a_limit_out_of_range_changes_nothing(
        self, store: KeyStore, peppers: Peppers, changes: dict[str, float]
    ) -> None:
        await store.migrate()
        _, record = await store.create(SHOP, peppers)
        revision = await store.revision()
        with pytest.raises(KeyRefused):
            await store.set_limits(record.kid, changes)
        with pytest.raises(KeyRefused):
            await store.set_project_limits("shop", changes)
        assert await store.get(record.kid) == record
        assert await store.revision() == revision

    async def test_nobody_unknown_is_limited(self, store: KeyStore) -> None:
        await store.migrate()
        with pytest.raises(UnknownKey):
            await store.set_limits("0123456789ab", {"rpm": 1})
        with pytest.raises(UnknownProject):
            await store.set_project_limits("shop", {"rpm": 1})

    async def test_gateways_see_every_change(self, store: KeyStore, peppers: Peppers) -> None:
        await store.migrate()
        _, record = await store.create(SHOP, peppers)
        known = await store.snapshot()
        await store.set_limits(record.kid, {"rpm": 1})
        await store.set_project_limits("shop", {"rpm": 2})
        snapshot = await store.snapshot(known)
        assert snapshot.keys[record.kid].limits.rpm == 1
        assert snapshot.projects["shop"].rpm == 2
        assert snapshot.revision == known.revision + 2


class TestLastUse:
    async def test_the_latest_time_is_kept_and_no_gateway_reads_the_keys_again(
        self, store: KeyStore, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, used = await store.create(SHOP, peppers)
        _, unused = await store.create(SHOP, peppers)
        revision = await store.revision()
        await store.touch({used.kid: 100, "0123456789ab": 5})
        await store.touch({used.kid: 90})
        await store.touch({})
        assert (await store.get(used.kid)).last_used_at == 100
        assert (await store.get(unused.kid)).last_used_at is None
        assert await store.revision() == revision

    async def test_two_gateways_that_write_the_same_keys_do_not_block_each_other(
        self, store: KeyStore, database_url: str, peppers: Peppers
    ) -> None:
        await store.migrate()
        kids = [(await store.create(SHOP, peppers))[1].kid for _ in range(10)]
        other = KeyStore(database_url)
        await asyncio.gather(
            *(store.touch(dict.fromkeys(kids, at)) for at in range(1, 10)),
            *(other.touch(dict.fromkeys(reversed(kids), at)) for at in range(1, 10)),
        )
        await other.close()
        assert {record.last_used_at for record in await store.list()} == {9}


class TestAudit:
    async def test_every_change_is_logged_with_who_made_it(
        self, store: KeyStore, clock: HandClock, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, first = await store.create(SHOP, peppers)
        _, second = await store.rotate(first.kid, peppers, Rotation(60), actor="0123456789ab")
        await store.set_limits(second.kid, {"rpm": None}, actor="0123456789ab")
        await store.set_project_limits("shop", {"tpm": 5})
        await store.revoke(second.kid)
        await store.revoke(second.kid)
        log = await store.audit_log()
        assert [(e.actor, e.action, e.target) for e in reversed(log)] == [
            ("cli", "create", first.kid),
            ("0123456789ab", "rotate", first.kid),
            ("0123456789ab", "limits", second.kid),
            ("cli", "limits", "project:shop"),
            ("cli", "revoke", second.kid),
        ]
        assert {entry.at for entry in log} == {int(clock.now)}
        created, rotated, limited, project, _ = [entry.detail for entry in reversed(log)]
        assert created["name"] == "search"
        assert created["limits"] == {"rpm": 60}
        assert rotated == {"replaced_by": second.kid, "expires_at": int(clock.now) + 60}
        assert (limited, project) == ({"rpm": None}, {"tpm": 5})

    async def test_a_change_that_is_refused_is_not_logged(
        self, store: KeyStore, peppers: Peppers
    ) -> None:
        await store.migrate()
        _, record = await store.create(SHOP, peppers)
        for change in (
            store.create(NewKey(name=""), peppers),
            store.create(SHOP, Peppers.generate()),
            store.set_limits(record.kid, {"rpm": -1}),
            store.revoke("0123456789ab"),
        ):
            with pytest.raises((KeyRefused, PepperMismatch, UnknownKey)):
                await change
        assert len(await store.audit_log()) == 1

    async def test_it_is_read_page_by_page(self, store: KeyStore, peppers: Peppers) -> None:
        await store.migrate()
        kids = [(await store.create(SHOP, peppers))[1].kid for _ in range(5)]
        newest = await store.audit_log(limit=2)
        rest = await store.audit_log(limit=10, before_id=newest[-1].id)
        assert [entry.target for entry in newest + rest] == kids[::-1]

    async def test_nothing_secret_is_in_it(
        self, store: KeyStore, database_url: str, peppers: Peppers
    ) -> None:
        await store.migrate()
        key, record = await store.create(SHOP, peppers)
        new_key, new = await store.rotate(record.kid, peppers, Rotation(60))
        rows = json.dumps(await execute(database_url, "SELECT * FROM audit"))
        for secret in (key, new_key, record.digest.hex(), new.digest.hex()):
            assert secret.rpartition("-")[2] not in rows
