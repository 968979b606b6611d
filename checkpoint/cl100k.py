"""OpenAI's cl100k_base ids back to text: what clients send that take any model for OpenAI's."""

import base64
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from checkpoint.errors import InvalidTokenId

RANKS = 100_256  # ids from here on are cl100k's special tokens, which are no text


def decode_cl100k(ids: Sequence[int], index: int = 0) -> str:
    """The text of cl100k_base ids; `index` is the input's place in its request.

    Clients cut long texts every n ids, within a code point too: what is left of a code point at
    either end becomes U+FFFD. Raises InvalidTokenId for anything but ints in [0, 100256).
    """
    table = _table()
    for position, token in enumerate(ids):
        if type(token) is not int or not 0 <= token < RANKS:  # a bool is an int to isinstance
            raise InvalidTokenId(index, position)
    return b"".join([table[token] for token in ids]).decode("utf-8", errors="replace")


@cache
def _table() -> tuple[bytes, ...]:
    """The bytes of every rank, read on first use: most servers never meet an id."""
    ranks = (files("checkpoint") / "data" / "cl100k_base.tiktoken").read_bytes()
    # Line n holds rank n.
    return tuple(base64.b64decode(line.partition(b" ")[0]) for line in ranks.splitlines())
