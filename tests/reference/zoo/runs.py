"""How transformers and sentence-transformers answer for a checkpoint. Needs both, and torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from reference import archive
from reference.zoo import loaders, token_loaders
from reference.zoo.checkpoint import Answer, Checkpoint
from reference.zoo.inputs import Inputs, sequences, spans
from reference.zoo.loaded import Features, Loaded

BATCH = 16

Rows = NDArray[np.float32]


@torch.inference_mode()
def answers(checkpoint: Checkpoint, directory: Path) -> dict[str, NDArray[Any]]:
    """Every array of the reference, by its key below the checkpoint's name."""
    loaded = _LOAD[checkpoint.answer](checkpoint, directory)
    asked = {"sequences": _sequences(checkpoint, loaded)}
    if given := loaded.encode():
        asked["pairs" if checkpoint.asks_pairs else "texts"] = given
    arrays = {}
    for key, inputs in asked.items():
        arrays |= {f"{key}/{name}": array for name, array in _arrays(inputs, loaded).items()}
        if checkpoint.answer == "spans":
            arrays[f"{key}/spans"] = spans(len(ids) for ids in inputs.input_ids)
    return arrays


@torch.inference_mode()
def rows_of_sequences(checkpoint: Checkpoint, directory: Path, batch: int = BATCH) -> Rows:
    """The answers to the bare ids alone."""
    loaded = _LOAD[checkpoint.answer](checkpoint, directory)
    return _rows(_sequences(checkpoint, loaded), loaded, batch)


_LOAD: Mapping[Answer, Callable[[Checkpoint, Path], Loaded]] = {
    "vectors": loaders.vectors,
    "scores": loaders.scores,
    "module_scores": loaders.module_scores,
    "yes_no": loaders.yes_no,
    "logit_score": loaders.logit_score,
    "tokens": token_loaders.tokens,
    "sparse": token_loaders.sparse,
    "lexical": token_loaders.lexical,
    "multi_vectors": token_loaders.multi_vectors,
    "spans": token_loaders.spans,
}


def _sequences(checkpoint: Checkpoint, loaded: Loaded) -> Inputs:
    types = getattr(loaded.config, "type_vocab_size", 1)
    if not checkpoint.asks_pairs:
        types = 1  # sentence-transformers gives none
    lengths = [length for length in checkpoint.lengths if length > loaded.prompt_tokens]
    return sequences(loaded.config.vocab_size, lengths, types)


def _arrays(inputs: Inputs, loaded: Loaded) -> dict[str, NDArray[Any]]:
    ids, lengths = archive.pack(inputs.input_ids)
    type_ids, _ = archive.pack(inputs.type_ids)
    arrays = {
        "input_ids": ids,
        "type_ids": type_ids.astype(np.uint8),
        "lengths": lengths,
        "rows": _rows(inputs, loaded, BATCH),
    }
    if loaded.prompt_tokens:
        arrays["prompt_tokens"] = np.full(len(inputs), loaded.prompt_tokens, np.int32)
    return arrays


def _rows(inputs: Inputs, loaded: Loaded, batch: int) -> Rows:
    pad_id = loaded.config.pad_token_id or 0
    steps = [loaded.run(features) for features in _padded(inputs, pad_id, batch)]
    rows: Rows = torch.cat(steps).float().numpy()
    return rows


def _padded(inputs: Inputs, pad_id: int, batch: int) -> Iterator[Features]:
    for start in range(0, len(inputs), batch):
        chosen = slice(start, start + batch)
        yield {
            "input_ids": _pad(inputs.input_ids[chosen], pad_id),
            "token_type_ids": _pad(inputs.type_ids[chosen], 0),
            "attention_mask": _pad([[1] * len(ids) for ids in inputs.input_ids[chosen]], 0),
        }


def _pad(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])
