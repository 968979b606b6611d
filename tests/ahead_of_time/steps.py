"""`python -m ahead_of_time.steps`: how many kernels a launcher compiles while steps differ."""

import json
from collections.abc import Callable

import torch
from ahead_of_time.compiler import compiled

from engine.attention import AttentionSpec
from engine.encoder import Embeddings
from engine.join import JoinNorms
from engine.norm import RmsNorm
from engine.segments import Segments
from engine.triton_kernels.attention import TiledSequences, ragged_attention
from engine.triton_kernels.embed import embed
from engine.triton_kernels.finish import finish
from engine.triton_kernels.gate import gate
from engine.triton_kernels.join import join
from engine.triton_kernels.linear import linear
from engine.triton_kernels.norm import normed
from engine.triton_kernels.pool import pool
from engine.triton_kernels.tuning import Tuning
from engine.triton_kernels.turn import turn_

_WIDTH = 384
_WEIGHT = torch.empty(_WIDTH, _WIDTH, dtype=torch.bfloat16)
_NORM = RmsNorm(torch.empty(_WIDTH), 1e-6)
_NORMS = JoinNorms(next=_NORM)
_TABLE = torch.empty(8, 128)
_ATTENTION, _TILES = AttentionSpec(1, 1, 128, 0.1), Tuning(64, 64, 4, 3)


def _launches(tokens: int, slots: int) -> dict[str, Callable[[], object]]:
    x = torch.empty(tokens, _WIDTH, dtype=torch.bfloat16)
    buffer = torch.zeros(3 * tokens + 3 * slots, dtype=torch.int32)  # views begin anywhere in it
    sequences = TiledSequences(buffer[tokens:], buffer[slots : 3 * slots].view(-1, 2))
    ids = buffer[: 3 * tokens].view(3, tokens)
    segments = Segments(*buffer[3 * tokens :].view(3, slots))
    embeddings = Embeddings(_WEIGHT, 8, types=2, positions=_WEIGHT, norm=_NORM)
    rows = torch.empty(slots, _WIDTH)
    return {
        "attention": lambda: ragged_attention(
            x.view(tokens, -1, 128), torch.empty_like(x), sequences, _ATTENTION, _TILES
        ),
        "embed": lambda: embed(embeddings, *ids),
        "normed": lambda: normed(x, _NORM),
        "join": lambda: join(x, x, _NORMS),
        "turn": lambda: turn_(x.view(tokens, -1, 128), 2, None, _TABLE, ids[1]),
        "gate": lambda: gate(x, "silu"),
        "linear": lambda: linear(x, _WEIGHT, None, "gelu"),
        "cls": lambda: pool(x, x, _NORMS, segments, "cls"),
        "mean": lambda: pool(None, x, _NORMS, segments, "mean"),
        "finish": lambda: finish(rows, torch.empty(slots, _WIDTH + 1)),
    }


def main() -> None:
    kernels: dict[str, set[str]] = {name: set() for name in _launches(1, 1)}
    for tokens, slots in ((17, 1), (63, 8), (64, 9), (65, 33), (100, 128), (512, 512)):
        for name, launch in _launches(tokens, slots).items():
            kernels[name] |= {kernel.hash for kernel in compiled(launch)}
    print(json.dumps({name: len(hashes) for name, hashes in kernels.items()}))


if __name__ == "__main__":
    main()
