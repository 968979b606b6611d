"""Refuses to time a server whose vectors, scores or token counts are wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from bench.client import Client
from bench.inputs import Encode, as_text
from bench.results import Check
from bench.suites.scoring import QUERY_TOKENS
from bench.texts import Texts

DEFAULT_REFERENCE = Path(__file__).parent / "reference" / "all-MiniLM-L6-v2.npz"
MIN_COSINE = 0.999
_ALONE = 4  # texts that are also embedded each in a request of its own
_PROBE_TOKENS = (10, 40)

# A score is the cosine of two vectors. bfloat16 moves it by some 0.003; a wrong prompt, a wrong
# pooling or scores in the wrong order move it by 0.1 and more.
MAX_SCORE_DIFFERENCE = 0.02


_OTHER_MODEL = "For another model give --reference FILE, made by bench/reference/make.py"


class CheckFailed(Exception):
    """The server answers something else than the model does."""


@dataclass(frozen=True, eq=False)
class Reference:
    about: str
    texts: list[str]
    vectors: NDArray[np.float32]  # [N, D]


def read_reference(path: Path) -> Reference:
    with np.load(path, allow_pickle=False) as archive:
        header = orjson.loads(archive["header"].tobytes())
        return Reference(header["about"], header["texts"], archive["vectors"])


async def check_vectors(client: Client, reference: Reference, encode: Encode = as_text) -> Check:
    """The least cosine over the texts, in one request and some alone. Raises CheckFailed."""
    inputs = encode(reference.texts)
    together = (await client.embed(inputs)).vectors
    (_, dimensions), (_, expected) = together.shape, reference.vectors.shape
    if dimensions != expected:
        raise CheckFailed(
            f"the server: vectors of {dimensions} dimensions, those of {reference.about} have "
            f"{expected}. {_OTHER_MODEL}"
        )
    alone = [(await client.embed([one])).vectors for one in inputs[:_ALONE]]
    cosine = min(
        min_cosine(together, reference.vectors),
        min_cosine(np.concatenate(alone), reference.vectors[:_ALONE]),
    )
    return passed(reference, cosine, "the server")


def passed(reference: Reference, cosine: float, name: str) -> Check:
    """Raises CheckFailed below `MIN_COSINE`."""
    if not cosine >= MIN_COSINE:  # written so that NaN fails
        raise CheckFailed(
            f"{name}: cosine {cosine:.5f} to {reference.about}, less than {MIN_COSINE}. "
            f"{_OTHER_MODEL}"
        )
    return Check(reference.about, len(reference.texts), cosine)


def min_cosine(vectors: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Of the rows, pair by pair; -1 where the shapes differ."""
    if vectors.shape != expected.shape:
        return -1.0
    a, b = vectors.astype(np.float64), expected.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.min((a * b).sum(axis=1) / norms))


async def check_scores(client: Client, reference: Reference) -> None:
    """Scores of an embedding model are the cosines of its vectors. Raises CheckFailed."""
    unit = reference.vectors / np.linalg.norm(reference.vectors, axis=1, keepdims=True)
    scores = await client.rerank(reference.texts[0], reference.texts[1:])
    difference = float(np.max(np.abs(scores.values - unit[1:] @ unit[0])))
    if not difference <= MAX_SCORE_DIFFERENCE:
        raise CheckFailed(f"scores differ by {difference:.4f} from cosines of {reference.about}")


async def count_special_tokens(
    client: Client, sizes: Iterable[int], encode: Encode = as_text
) -> int:
    """What the tokenizer adds to a text. Raises CheckFailed where texts would not be exact."""

    async def count(text: str) -> int:
        return (await client.embed(encode([text]))).tokens

    texts = Texts("probe", special_tokens=0)
    special = await count(texts.of(_PROBE_TOKENS[0])) - _PROBE_TOKENS[0]
    exact = Texts("probe", special)
    for size in (*_PROBE_TOKENS, QUERY_TOKENS, *sizes):
        counted = await count(exact.of(size))
        if counted != size:
            raise CheckFailed(f"a text of {size} tokens has {counted} for the server")
    return special
