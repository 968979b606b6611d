"""The text of a key is final: keys in use must stay valid."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth.errors import KeyRefused, MalformedKey
from auth.key import BASE62, ParsedKey, generate_key, parse_key

KNOWN_KEY = "sk-live-0123456789ab-florilege0florilege1florilege2florilege3AbZ41yVGq"


def test_a_key_of_the_first_version_is_read_for_ever() -> None:
    assert parse_key(KNOWN_KEY) == ParsedKey(env="live", kid="0123456789ab")


def test_a_new_key_has_the_documented_format() -> None:
    key, kid = generate_key()
    assert re.fullmatch(r"sk-live-[0-9a-f]{12}-[0-9A-Za-z]{49}", key)
    assert parse_key(key) == ParsedKey(env="live", kid=kid)


def test_keys_and_key_ids_do_not_repeat() -> None:
    made = [generate_key() for _ in range(200)]
    assert len({key for key, _ in made}) == len({kid for _, kid in made}) == 200


def test_every_symbol_of_the_alphabet_is_used() -> None:
    secrets = "".join(generate_key()[0].rpartition("-")[2][:43] for _ in range(100))
    assert set(secrets) == set(BASE62)


@pytest.mark.parametrize("env", ["test", "a", "x2", "a23456789012345f"])
def test_env_is_part_of_the_key(env: str) -> None:
    key, _ = generate_key(env)
    assert key.startswith(f"sk-{env}-")
    assert parse_key(key).env == env


@pytest.mark.parametrize("env", ["", "Live", "1st", "a-b", "é", "a\n", "a" * 17])
def test_env_outside_its_alphabet_is_refused(env: str) -> None:
    with pytest.raises(KeyRefused):
        generate_key(env)


def rejected(text: str) -> bool:
    try:
        parse_key(text)
    except MalformedKey:
        return True
    return False


@pytest.mark.parametrize(
    "key", [KNOWN_KEY, generate_key()[0], generate_key("test")[0]], ids=["known", "live", "test"]
)
def test_every_substituted_character_is_rejected_offline(key: str) -> None:
    typos = [
        key[:at] + typed + key[at + 1 :]
        for at in range(len(key))
        for typed in string.printable
        if typed != key[at]
    ]
    assert [typo for typo in typos if not rejected(typo)] == []


@pytest.mark.parametrize(
    "key", [KNOWN_KEY, generate_key()[0], generate_key("test")[0]], ids=["known", "live", "test"]
)
def test_every_swap_of_neighbours_is_rejected_offline(key: str) -> None:
    swaps = {key[:i] + key[i + 1] + key[i] + key[i + 2 :] for i in range(len(key) - 1)} - {key}
    assert [swap for swap in swaps if not rejected(swap)] == []


@pytest.mark.parametrize(
    "text",
    [KNOWN_KEY + "\n", " " + KNOWN_KEY, KNOWN_KEY[:-1], KNOWN_KEY.upper(), "sk-" * 1_000_000],
)
def test_a_key_with_anything_around_it_is_rejected(text: str) -> None:
    assert rejected(text)


@given(st.integers(0, len(KNOWN_KEY) - 1), st.text(max_size=3))
def test_text_of_any_script_is_rejected_and_never_crashes(at: int, typed: str) -> None:
    text = KNOWN_KEY[:at] + typed + KNOWN_KEY[at + 1 :]
    assert rejected(text) == (text != KNOWN_KEY)


@given(st.text() | st.text(alphabet=st.characters(categories=["Cs"])))
def test_arbitrary_text_is_rejected_and_never_crashes(text: str) -> None:
    assert rejected(text)
