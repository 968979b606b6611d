"""From one pepper to the next: both, while keys of the old one live."""

from pathlib import Path

import pytest
from hand_clock import HandClock
from key_server import KeyServer

from auth.errors import PepperExposed, PepperMismatch, PepperMissing
from auth.pepper import Peppers, load_peppers
from auth.record import NewKey, Rotation
from auth.store import KeyStore


async def test_with_both_peppers_old_and_new_keys_are_admitted(
    store: KeyStore, peppers: Peppers, both_peppers: Peppers
) -> None:
    await store.migrate()
    old, old_record = await store.create(NewKey(name="old"), peppers)
    new, new_record = await store.create(NewKey(name="new"), both_peppers)
    server = KeyServer(store, lambda: both_peppers)
    await server.watch.refresh()
    assert (old_record.pv, new_record.pv) == (1, 2)
    assert server.admits(old)
    assert server.admits(new)


async def test_while_a_key_of_the_old_pepper_lives_no_server_starts_without_it(
    store: KeyStore, peppers: Peppers, newer_peppers: Peppers, both_peppers: Peppers
) -> None:
    await store.migrate()
    old, record = await store.create(NewKey(name="old"), peppers)
    new, _ = await store.create(NewKey(name="new"), both_peppers)
    server = KeyServer(store, lambda: newer_peppers)
    with pytest.raises(PepperMissing, match="pepper 1"):
        await server.watch.refresh()
    assert not server.admits(old)

    await store.revoke(record.kid)
    await server.watch.refresh()
    assert not server.admits(old)
    assert server.admits(new)


async def test_a_key_of_a_pepper_that_is_gone_is_refused_without_the_database(
    store: KeyStore, peppers: Peppers, newer_peppers: Peppers, both_peppers: Peppers
) -> None:
    await store.migrate()
    old, _ = await store.create(NewKey(name="old"), peppers)
    new, _ = await store.create(NewKey(name="new"), both_peppers)
    server = KeyServer(store, lambda: both_peppers)
    await server.watch.refresh()
    server.authenticator.replace(server.authenticator.snapshot, newer_peppers)
    assert not server.admits(old)
    assert server.admits(new)


async def test_rotating_its_keys_frees_a_server_of_the_old_pepper(
    store: KeyStore,
    clock: HandClock,
    peppers: Peppers,
    newer_peppers: Peppers,
    both_peppers: Peppers,
) -> None:
    clock.now = 1_000_000_000  # so that the grace is over on the server's clock
    await store.migrate()
    old, record = await store.create(NewKey(name="a"), peppers)
    new, rotated = await store.rotate(record.kid, both_peppers, Rotation(60))
    server = KeyServer(store, lambda: newer_peppers)
    await server.watch.refresh()
    assert rotated.pv == 2
    assert server.admits(new)
    assert not server.admits(old)


async def test_a_key_of_a_pepper_that_a_running_server_lacks_harms_no_other(
    store: KeyStore, peppers: Peppers, both_peppers: Peppers
) -> None:
    await store.migrate()
    old, _ = await store.create(NewKey(name="old"), peppers)
    given = [peppers]
    server = KeyServer(store, lambda: given[0])
    await server.watch.refresh()
    new, _ = await store.create(NewKey(name="new"), both_peppers)
    with pytest.raises(PepperMissing, match="pepper 2"):
        await server.watch.refresh()
    assert server.admits(old)
    assert not server.admits(new)
    given[0] = both_peppers
    await server.watch.refresh()
    assert server.admits(old)
    assert server.admits(new)


async def test_peppers_that_cannot_be_read_any_more_are_remembered(
    store: KeyStore, peppers: Peppers, tmp_path: Path
) -> None:
    await store.migrate()
    file = tmp_path / "pepper"
    file.touch(mode=0o600)
    file.write_text(peppers.dump())
    kept, _ = await store.create(NewKey(name="kept"), peppers)
    revoked, record = await store.create(NewKey(name="revoked"), peppers)
    server = KeyServer(store, lambda: load_peppers(file))
    await server.watch.refresh()
    file.chmod(0o644)
    await store.revoke(record.kid)
    with pytest.raises(PepperExposed):
        await server.watch.refresh()
    assert server.admits(kept)
    assert not server.admits(revoked)


async def test_another_pepper_of_the_same_version_admits_nobody(
    store: KeyStore, peppers: Peppers
) -> None:
    await store.migrate()
    key, _ = await store.create(NewKey(name="a"), peppers)
    server = KeyServer(store, Peppers.generate)
    with pytest.raises(PepperMismatch):
        await server.watch.refresh()
    assert not server.admits(key)
