"""How transformers and sentence-transformers answer for a checkpoint. Needs both, and torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from reference import archive, sharp_inputs
from reference.zoo.checkpoint import Answer, Checkpoint
from reference.zoo.inputs import Inputs, sequences
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

BATCH = 16
EAGER = {"attn_implementation": "eager", "dtype": torch.float32}

Features = dict[str, torch.Tensor]
Rows = NDArray[np.float32]
Run = Callable[[Features], torch.Tensor]  # [B, D]


@dataclass(frozen=True)
class Loaded:
    """A checkpoint in transformers."""

    encode: Callable[[], Inputs]  # its texts or pairs
    run: Run
    config: Any


@torch.inference_mode()
def answers(checkpoint: Checkpoint, directory: Path) -> dict[str, NDArray[Any]]:
    """Every array of the reference, by its key below the checkpoint's name."""
    loaded = _LOAD[checkpoint.answer](checkpoint, directory)
    key = "pairs" if checkpoint.asks_pairs else "texts"
    return _arrays(key, loaded.encode(), loaded) | _arrays(
        "sequences", _sequences(checkpoint, loaded), loaded
    )


@torch.inference_mode()
def rows_of_sequences(checkpoint: Checkpoint, directory: Path, batch: int = BATCH) -> Rows:
    """The answers to the bare ids alone."""
    loaded = _LOAD[checkpoint.answer](checkpoint, directory)
    return _rows(_sequences(checkpoint, loaded), loaded, batch)


def _sequences(checkpoint: Checkpoint, loaded: Loaded) -> Inputs:
    types = getattr(loaded.config, "type_vocab_size", 1)
    if not checkpoint.asks_pairs:
        types = 1  # sentence-transformers gives none
    return sequences(loaded.config.vocab_size, checkpoint.lengths, types)


def _arrays(key: str, inputs: Inputs, loaded: Loaded) -> dict[str, NDArray[Any]]:
    ids, lengths = archive.pack(inputs.input_ids)
    type_ids, _ = archive.pack(inputs.type_ids)
    return {
        f"{key}/input_ids": ids,
        f"{key}/type_ids": type_ids.astype(np.uint8),
        f"{key}/lengths": lengths,
        f"{key}/rows": _rows(inputs, loaded, BATCH),
    }


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


def _vectors(_: Checkpoint, directory: Path) -> Loaded:
    model = SentenceTransformer(
        str(directory), device="cpu", local_files_only=True, model_kwargs=EAGER
    ).eval()

    def encode() -> Inputs:
        ids = [
            model.preprocess([text])["input_ids"][0].tolist()
            for text in sharp_inputs.texts()
            if text or model.tokenizer("")["input_ids"]  # no ids, no vector
        ]
        return Inputs(ids, [[0] * len(row) for row in ids])

    def run(features: Features) -> torch.Tensor:
        return model(features)["sentence_embedding"]

    return Loaded(encode, run, model[0].auto_model.config)


def _scores(checkpoint: Checkpoint, directory: Path) -> Loaded:
    model = AutoModelForSequenceClassification.from_pretrained(directory, **EAGER).eval()
    known = signature(model.forward).parameters
    tokenizer = AutoTokenizer.from_pretrained(directory)

    def encode() -> Inputs:
        pairs = Inputs([], [])
        for pair in sharp_inputs.flat(sharp_inputs.pairs()):
            # A list: given two strings, transformers drops an empty document and its separator.
            encoded = tokenizer(
                [pair],
                truncation="only_second",
                max_length=checkpoint.max_tokens,
                return_token_type_ids=True,
            )
            pairs.input_ids.extend(encoded["input_ids"])
            pairs.type_ids.extend(encoded["token_type_ids"])
        return pairs

    def run(features: Features) -> torch.Tensor:
        taken = {name: value for name, value in features.items() if name in known}
        return model(**taken).logits

    return Loaded(encode, run, model.config)


_LOAD: Mapping[Answer, Callable[[Checkpoint, Path], Loaded]] = {
    "vectors": _vectors,
    "scores": _scores,
}
