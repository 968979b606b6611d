"""Padded totals: few enough that a graph of each can be kept, close enough to waste little."""

from dataclasses import dataclass

# (up to, step). A GEMM works on tiles of 128 rows: what pads within one costs nothing, so steps of
# 128 suffice; short steps, whose time is the launching of kernels, are replayed most often.
_STEPS = ((512, 64), (4096, 128), (8192, 256), (16_384, 512), (32_768, 1024))

# Empty slots cost one early exit a head, so slots are coarse.
SLOTS = (1, 8, 32, 128, 512)

_SHORTEST_BOUND = 64  # of a sequence's length: the rows of one tile of attention


@dataclass(frozen=True)
class Configuration:
    """What a forward is laid out for: the key of its graph."""

    kind: str  # what the model answers: embed, score, …
    tokens: int  # all rows, the dummy tail included
    slots: int  # sequences (or spans) at most; those unused have no tokens
    max_seqlen: int = 0  # bound of a sequence's tokens; 0: the attention needs none


def token_bucket(tokens: int) -> int:
    """The least padded total of at least `tokens`: 84 up to 32,768, then multiples of 1,024."""
    step = next((step for last, step in _STEPS if tokens <= last), _STEPS[-1][1])
    return max(1, -(-tokens // step)) * step


def slot_bucket(rows: int) -> int | None:
    """The least number of slots for `rows` sequences; None: more than graphs are made for."""
    return next((slots for slots in SLOTS if rows <= slots), None)


def seqlen_bucket(longest: int) -> int:
    """The least power of two, from 64 on, of at least `longest` tokens."""
    return max(_SHORTEST_BOUND, 1 << (longest - 1).bit_length())


def _totals() -> tuple[int, ...]:
    totals: list[int] = []
    for last, step in _STEPS:
        totals += range((totals[-1] if totals else 0) + step, last + 1, step)
    return tuple(totals)


TOKEN_BUCKETS = _totals()
