import hashlib
from importlib.resources import files

import pytest

from checkpoint.cl100k import decode_cl100k
from checkpoint.errors import InvalidTokenId


def test_table_is_the_published_one() -> None:
    table = (files("checkpoint") / "data" / "cl100k_base.tiktoken").read_bytes()
    published = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
    assert hashlib.sha256(table).hexdigest() == published


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([15339, 1917], "hello world"),
        ([9906, 11, 1917, 0], "Hello, world!"),
        ([83, 1609, 5963, 374, 2294, 0], "tiktoken is great!"),
        ([], ""),
        ([0], "!"),
    ],
)
def test_known_ids_give_their_text(ids: list[int], text: str) -> None:
    assert decode_cl100k(ids) == text


def test_every_id_below_the_special_ones_decodes() -> None:
    assert len(decode_cl100k(range(100_256))) > 100_256


def test_code_point_cut_by_the_client_becomes_the_replacement_character() -> None:
    emoji = [9468, 234, 235]  # U+1F30D, four bytes in three tokens
    assert decode_cl100k(emoji) == "🌍"
    assert decode_cl100k([15339, *emoji[:1]]) == "hello\ufffd"
    assert decode_cl100k(emoji[2:]) == "\ufffd"


@pytest.mark.parametrize("token", [-1, 100_256, 100_257, 2**70, True, 1.0, "1", None])
def test_id_that_is_no_text_is_refused_with_its_place(token: object) -> None:
    with pytest.raises(InvalidTokenId) as caught:
        decode_cl100k([15339, token], index=7)  # type: ignore[list-item]
    assert (caught.value.index, caught.value.position) == (7, 1)
