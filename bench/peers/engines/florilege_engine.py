"""Our engine without a server around it: texts in the order they come, batches of `size` tokens."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from checkpoint.encoded import Encoded
from checkpoint.find import find_model
from checkpoint.read import ReadOptions, read_model, read_tokenizer
from checkpoint.tokenizer import TextTokenizer
from cli.settings import share_the_cores
from engine.batch import Batch
from engine.engine import Engine, EngineConfig

LIBRARIES = ("florilege", "torch", "tokenizers")


def load(
    model_dir: str, exports: str, dtype: str
) -> Callable[[list[str], int], NDArray[np.float32]]:
    share_the_cores()
    found = find_model(str(Path(model_dir).absolute()))
    spec, files = read_model(found, ReadOptions())
    tokenizer = TextTokenizer(read_tokenizer(files.directory), spec.max_tokens, spec.vocab_size)
    engine = Engine.load(spec, files, EngineConfig("cpu", dtype))

    def embed(texts: list[str], size: int) -> NDArray[np.float32]:
        encoded = tokenizer.encode(texts, truncate=True)
        parts = [engine.step(batch).wait().rows for batch in _batches(encoded, size)]
        rows: NDArray[np.float32] = np.concatenate(parts)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    return embed


def _batches(encoded: Encoded, most: int) -> Iterator[Batch]:
    """Whole sequences up to `most` tokens, as a worker takes jobs."""
    ends = np.cumsum(encoded.lengths)
    first = start = 0
    while first < ends.size:
        last = max(int(np.searchsorted(ends, start + most, side="right")), first + 1)
        end = int(ends[last - 1])
        yield Batch("embed", encoded.input_ids[start:end], encoded.lengths[first:last])
        first, start = last, end
