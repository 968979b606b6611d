"""Batches for engines that take rectangles: texts sorted by length, padded within a batch.

Needs tokenizers and numpy alone: it runs in the peers' environments.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Ids = NDArray[np.int64]  # [B, T]
Batch = tuple[Ids, Ids]  # ids, mask
Run = Callable[[Sequence[Batch]], Sequence[NDArray[np.float32]]]  # vectors [B, D] of each
Embed = Callable[[list[str], int], NDArray[np.float32]]


def padded(model_dir: Path, run: Run) -> Embed:
    """`embed(texts, size)`: all batches through `run`, vectors in the order of the texts."""
    tokenizer = _tokenizer(model_dir)

    def embed(texts: list[str], size: int) -> NDArray[np.float32]:
        encoded = tokenizer.encode_batch_fast(texts)
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i].ids))
        batches = []
        for start in range(0, len(texts), size):
            rows = [encoded[i].ids for i in order[start : start + size]]
            lengths = np.array([len(row) for row in rows])
            mask = np.arange(lengths.max()) < lengths[:, None]  # [B, T]
            input_ids = np.zeros(mask.shape, np.int64)
            input_ids[mask] = np.concatenate(rows)
            batches.append((input_ids, mask.astype(np.int64)))
        parts = run(batches)
        vectors = np.empty((len(texts), parts[0].shape[1]), np.float32)
        vectors[order] = np.concatenate(parts)
        return vectors

    return embed


def _tokenizer(model_dir: Path) -> Tokenizer:
    """Truncating where sentence-transformers does; padding is done here, batch by batch."""
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    config = json.loads((model_dir / "sentence_bert_config.json").read_text())
    tokenizer.enable_truncation(config["max_seq_length"])
    tokenizer.no_padding()
    return tokenizer
