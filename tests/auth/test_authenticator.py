"""Who gets in, and what a refusal gives away: nothing."""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hand_clock import HandClock

from auth.authenticator import Authenticator
from auth.errors import InvalidKey, MissingKey
from auth.holder import Holder
from auth.key import generate_key
from auth.pepper import Peppers
from auth.principal import ANONYMOUS, Principal
from auth.record import KeyRecord, Limits
from auth.snapshot import EMPTY, Snapshot

NO_PROJECTS: Mapping[str, Limits] = {}


class Door:
    """An authenticator closed by one key."""

    def __init__(self, peppers: Peppers, clock: HandClock) -> None:
        self.key, self.kid = generate_key()
        self.peppers = peppers
        self.record = KeyRecord(
            kid=self.kid,
            digest=peppers.digest(self.key, 1),
            pv=1,
            created_at=0,
            name="search",
            scopes=frozenset({"embed"}),
            models=frozenset({"m"}),
            lane="bulk",
        )
        self.authenticator = Authenticator(now=clock)
        self.put()

    def put(
        self,
        projects: Mapping[str, Limits] = NO_PROJECTS,
        peppers: Peppers | None = None,
        **changes: object,
    ) -> None:
        record = replace(self.record, **changes)
        snapshot = Snapshot(1, {self.kid: record}, projects)
        self.authenticator.replace(snapshot, peppers or self.peppers)


@pytest.fixture
def door(peppers: Peppers, clock: HandClock) -> Door:
    return Door(peppers, clock)


def key_with(kid: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A well-formed key with this key id and a secret of its own."""
    with monkeypatch.context() as patch:
        patch.setattr(secrets, "token_hex", lambda _: kid)
        return generate_key()[0]


@pytest.mark.parametrize(
    "presented",
    [None, "", "sk-anything", generate_key()[0]],
    ids=["none", "empty", "malformed", "unknown"],
)
def test_without_keys_everybody_is_anonymous_whatever_they_present(presented: str | None) -> None:
    authenticator = Authenticator()
    assert authenticator.is_open
    assert authenticator.authenticate(presented) is ANONYMOUS


def test_anonymous_may_embed_and_rerank_with_any_model_but_not_administer() -> None:
    assert ANONYMOUS.kid is None
    assert ANONYMOUS.may("embed")
    assert ANONYMOUS.may("rerank")
    assert not ANONYMOUS.may("admin")
    assert ANONYMOUS.may_use("any")


def test_a_key_gives_the_rights_of_its_row(door: Door) -> None:
    principal = door.authenticator.authenticate(door.key)
    assert principal == Principal(
        door.kid, "search", frozenset({"embed"}), frozenset({"m"}), "bulk"
    )
    assert principal.may("embed")
    assert not principal.may("rerank")
    assert principal.may_use("m")
    assert not principal.may_use("other")


def test_a_key_is_held_to_its_own_limits_and_to_those_of_its_project(door: Door) -> None:
    own, shared = Limits(rpm=60), Limits(tpm=1_000)
    door.put({"shop": shared}, project="shop", limits=own)
    principal = door.authenticator.authenticate(door.key)
    assert principal.project == "shop"
    assert principal.holders == (Holder("key", door.kid, own), Holder("project", "shop", shared))


def test_who_has_no_limits_holds_nothing(door: Door) -> None:
    assert door.authenticator.authenticate(door.key).holders == ()
    door.put({"shop": Limits()}, project="shop", limits=Limits(burst_s=5.0))
    assert door.authenticator.authenticate(door.key).holders == ()
    door.put({"shop": Limits(max_concurrency=1)}, project="shop")
    (holder,) = door.authenticator.authenticate(door.key).holders
    assert holder.kind == "project"


def test_a_principal_is_made_once_for_each_snapshot(door: Door) -> None:
    first = door.authenticator.authenticate(door.key)
    assert door.authenticator.authenticate(door.key) is first
    door.put(scopes=frozenset({"rerank"}))
    second = door.authenticator.authenticate(door.key)
    assert not second.may("embed")
    assert second.may("rerank")


@pytest.mark.parametrize("presented", [None, ""])
def test_once_a_key_exists_it_is_asked_for(door: Door, presented: str | None) -> None:
    assert not door.authenticator.is_open
    with pytest.raises(MissingKey):
        door.authenticator.authenticate(presented)


@pytest.mark.parametrize("dead", [{"revoked_at": 1}, {"expires_at": 1}])
def test_a_dead_key_still_closes_the_door(door: Door, dead: dict[str, int]) -> None:
    door.put(**dead)
    assert not door.authenticator.is_open


def test_the_door_never_opens_again(door: Door) -> None:
    door.authenticator.replace(EMPTY, None)
    assert not door.authenticator.is_open
    with pytest.raises(MissingKey):
        door.authenticator.authenticate(None)


def test_expiry_is_asked_at_every_request(door: Door, clock: HandClock) -> None:
    door.put(expires_at=int(clock.now) + 10)
    clock.now += 9.9
    assert door.authenticator.authenticate(door.key).kid == door.kid
    clock.now += 0.1
    with pytest.raises(InvalidKey):
        door.authenticator.authenticate(door.key)


def test_a_key_of_an_old_pepper_is_accepted_while_that_pepper_is_given(door: Door) -> None:
    rotated = Peppers.parse(door.peppers.dump() + Peppers.generate().dump().replace("1:", "2:", 1))
    door.put(peppers=rotated)
    assert door.authenticator.authenticate(door.key).kid == door.kid


Refusal = Callable[[Door, pytest.MonkeyPatch], str]

REFUSALS: dict[str, Refusal] = {
    "malformed": lambda door, patch: "password",
    "of another script": lambda door, patch: "clé-\ud800",
    "too long": lambda door, patch: door.key * 1000,
    "mistyped": lambda door, patch: door.key[:-1] + "!",
    "unknown": lambda door, patch: generate_key()[0],
    "guessed": lambda door, patch: key_with(door.kid, patch),
    "revoked": lambda door, patch: door.put(revoked_at=1) or door.key,
    "expired": lambda door, patch: door.put(expires_at=1) or door.key,
    "of another pepper": lambda door, patch: door.put(peppers=Peppers.generate()) or door.key,
    "of a pepper not given": lambda door, patch: door.put(pv=7) or door.key,
    "without any pepper": lambda door, patch: (
        door.authenticator.replace(door.authenticator.snapshot, None) or door.key
    ),
    "revoked, after it was admitted": lambda door, patch: (
        (door.authenticator.authenticate(door.key) and door.put(revoked_at=1)) or door.key
    ),
    "revoked, with limits and a project": lambda door, patch: (
        door.put({"shop": Limits(rpm=1)}, project="shop", limits=Limits(rpm=1), revoked_at=1)
        or door.key
    ),
    "of an administrator, revoked": lambda door, patch: (
        door.put(scopes=frozenset({"admin"}), models=None, revoked_at=1) or door.key
    ),
    "in its grace, which is over": lambda door, patch: (
        door.put(expires_at=1, replaces="0123456789ab") or door.key
    ),
    "after all keys were lost": lambda door, patch: (
        door.authenticator.replace(EMPTY, None) or door.key
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_every_refusal_does_the_same_work_and_says_the_same(
    door: Door, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    presented = refusal(door, monkeypatch)
    digested: list[int] = []
    compared: list[tuple[int, int]] = []
    digest, compare = hmac.digest, hmac.compare_digest

    def count_digest(key: bytes, message: bytes, name: str) -> bytes:
        digested.append(len(message))
        return digest(key, message, name)

    def count_compare(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(hmac, "digest", count_digest)
    monkeypatch.setattr(hmac, "compare_digest", count_compare)
    with pytest.raises(InvalidKey) as raised:
        door.authenticator.authenticate(presented)

    assert digested == [len(door.key)]
    assert compared == [(32, 32)]
    assert str(raised.value) == "the API key is not valid"
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_nothing_of_a_key_is_in_any_repr(door: Door) -> None:
    shown = repr(
        [
            door.record,
            door.authenticator.snapshot,
            door.authenticator,
            door.authenticator.authenticate(door.key),
            door.peppers,
        ]
    )
    secret = door.key.rpartition("-")[2]
    assert secret not in shown
    assert door.record.digest.hex() not in shown
    assert repr(door.record.digest) not in shown
    assert "digest" not in shown
