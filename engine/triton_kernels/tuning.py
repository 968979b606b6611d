from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    block_m: int
    block_n: int
    warps: int
    stages: int


def tuning(head_dim, average_tokens, element_bytes=2):
    return Tuning(64, 64, 4, 3)
