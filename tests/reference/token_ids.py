"""Token ids of `package_texts`, as hashes: what tokenizers are compared by.

A case is a way to tokenize; its values are one hash a text, or a pair, over ids and token types.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from reference import package_texts

TOKENIZERS = ("minilm", "e5", "qwen3", "gemma3")  # names in `packaged`
UNLIMITED = 1 << 20


@dataclass(frozen=True)
class Case:
    limit_tokens: int  # special tokens included
    side: Literal["left", "right"] = "right"  # that is cut; of the second text in a pair
    prompt: str = ""
    pairs: bool = False

    def inputs(self) -> Sequence[str] | Sequence[tuple[str, str]]:
        if self.pairs:
            return package_texts.pairs()
        return [self.prompt + text for text in package_texts.texts()]


CASES: Mapping[str, Case] = {
    "whole": Case(UNLIMITED),
    "right": Case(64, prompt=package_texts.PROMPT),
    "left": Case(64, "left"),
    "pairs": Case(128, pairs=True),
    "pairs-left": Case(128, "left", pairs=True),
}


def digests(
    ids: Iterable[Sequence[int]], types: Iterable[Sequence[int]] | None = None
) -> NDArray[np.uint64]:
    """One a sequence [B]; without types, as if all were 0."""
    rows = [np.asarray(sequence, "<i4") for sequence in ids]
    if types is None:
        types = [np.zeros(row.size, np.uint8) for row in rows]
    hashes = [
        hashlib.blake2b(
            row.tobytes() + np.asarray(type_ids, np.uint8).tobytes(), digest_size=8
        ).digest()
        for row, type_ids in zip(rows, types, strict=True)
    ]
    return np.frombuffer(b"".join(hashes), "<u8")
