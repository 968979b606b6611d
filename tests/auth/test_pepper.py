"""The pepper file, and what is made with it."""

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from auth.errors import PepperExposed, PepperMalformed, PepperMissing
from auth.pepper import Peppers, create_peppers, load_peppers

P1 = base64.b64encode(b"p" * 32).decode()
P2 = base64.b64encode(b"q" * 40).decode()


def test_digest_is_hmac_sha256_for_ever() -> None:
    key = "sk-live-0123456789ab-florilege0florilege1florilege2florilege3AbZ41yVGq"
    assert Peppers({1: b"p" * 32}).digest(key, 1).hex() == (
        "5a93307b73bc71dc071069ffc449bbb7f86329c67cf25eb2c0853389e37ae11a"
    )


def test_the_highest_version_digests_new_keys_and_old_ones_still_verify() -> None:
    peppers = Peppers.parse(f"2:{P2}\n1:{P1}\n")
    assert peppers.version == 2
    assert peppers.digest("k", 1) == Peppers.parse(f"1:{P1}").digest("k", 1)
    assert peppers.digest("k", 1) != peppers.digest("k", 2)
    assert 1 in peppers
    assert 3 not in peppers


def test_dump_is_what_parse_reads() -> None:
    peppers = Peppers.parse(f"1:{P1} 2:{P2}")
    assert Peppers.parse(peppers.dump()).dump() == peppers.dump() == f"1:{P1}\n2:{P2}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        P1,
        f"0:{P1}",
        f"-1:{P1}",
        f"x:{P1}",
        f"²:{P1}",
        "1:c2hvcnQ=",
        f"1:{P1}!",
        f"1:{P1} 1:{P2}",
        f"{2**31}:{P1}",
        f"{'9' * 5_000}:{P1}",
        f"1:{P1} {2**63}:{P2}",
    ],
)
def test_malformed_pepper_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(PepperMalformed) as raised:
        Peppers.parse(text)
    assert P1 not in str(raised.value)
    assert raised.value.__cause__ is None


def test_the_last_version_is_one_that_a_database_holds() -> None:
    assert Peppers.parse(f"{2**31 - 1}:{P1} 007:{P2}").version == 2**31 - 1


def test_secrets_are_not_in_the_repr() -> None:
    assert repr(Peppers.parse(f"1:{P1} 2:{P2}")) == "Peppers(versions=[1, 2])"


def test_created_file_is_private_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "data" / "pepper"
    made = create_peppers(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load_peppers(path).dump() == made.dump()
    assert list(path.parent.iterdir()) == [path]


def test_an_existing_pepper_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pepper"
    first = create_peppers(path)
    assert create_peppers(path).dump() == first.dump()


def test_all_who_create_at_once_get_the_same_pepper(tmp_path: Path) -> None:
    path = tmp_path / "data" / "pepper"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create_peppers, [path] * 8))
    assert {peppers.dump() for peppers in made} == {path.read_text()}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_pepper_open_to_other_users_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "pepper"
    create_peppers(path)
    path.chmod(mode)
    with pytest.raises(PepperExposed, match="chmod 600"):
        load_peppers(path)


def test_absent_pepper_is_named(tmp_path: Path) -> None:
    with pytest.raises(PepperMissing, match="no pepper at "):
        load_peppers(tmp_path / "pepper")


def test_unreadable_pepper_is_named(tmp_path: Path) -> None:
    with pytest.raises(PepperMissing, match="IsADirectoryError"):
        load_peppers(tmp_path)


def test_binary_pepper_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pepper"
    path.write_bytes(b"\xff\xfe\x00")
    path.chmod(0o600)
    with pytest.raises(PepperMalformed):
        load_peppers(path)
