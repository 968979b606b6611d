"""Sharp checkpoints with one detail wrong: what a test that compares models must notice.

A bias of the keys is not among them: it moves all scores of a query alike, and softmax drops it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference import sharp
from safetensors.numpy import load_file, save_file

Mutants = dict[str, "Mutant"]
Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class Mutant:
    """Which tensors and which entries of a JSON file are changed, and how."""

    tensors: str = r"(?!)"  # searched in their names; nothing by default
    change: Change = np.zeros_like
    swaps: tuple[str, str] | None = None  # parts of names: their tensors trade places
    config: Mapping[str, Any] = field(default_factory=dict)
    file: str = "config.json"  # where `config` stands


def write_mutant(name: str, mutant: Mutant, directory: Path) -> None:
    """The checkpoint `name`, mutated. Raises ValueError where there is nothing to mutate."""
    sharp.write_checkpoint(name, directory)
    mutate(directory, mutant)


def mutate(directory: Path, mutant: Mutant) -> None:
    """Change a checkpoint's files. Raises ValueError where there is nothing to change."""
    files = {path: load_file(path) for path in directory.rglob("*.safetensors")}
    originals = {name: tensor for tensors in files.values() for name, tensor in tensors.items()}
    changed = bool(mutant.config)
    for path, tensors in files.items():
        for name in tensors:
            if re.search(mutant.tensors, name):
                tensors[name] = np.ascontiguousarray(mutant.change(tensors[name]))
                changed = True
            if mutant.swaps and (other := _swapped(name, *mutant.swaps)) != name:
                tensors[name] = originals[other]
                changed = True
        save_file(tensors, path, metadata={"format": "pt"})
    if not changed:
        raise ValueError(f"{directory.name} has nothing that {mutant} changes")
    if mutant.config:
        path = directory / mutant.file
        sharp.write_json(path, json.loads(path.read_text()) | mutant.config)


def _swapped(name: str, one: str, other: str) -> str:
    return name.replace(one, other) if one in name else name.replace(other, one)


def _shift_positions(table: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.roll(table, 1, axis=0)


def _halve(tensor: NDArray[np.float32]) -> NDArray[np.float32]:
    return tensor * np.float32(0.5)


def _swap_halves(tensor: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.roll(tensor, len(tensor) // 2, axis=0)


# What any BERT may get wrong, whatever its head.
ENCODER: Mutants = {
    "attention scale halved": Mutant(r"self\.query\.", _halve),
    "heads of another width": Mutant(config={"num_attention_heads": 2}),
    "heads of values swapped": Mutant(r"self\.value\.", _swap_halves),
    "no bias of queries": Mutant(r"self\.query\.bias"),
    "no bias of values": Mutant(r"self\.value\.bias"),
    "no bias after attention": Mutant(r"attention\.output\.dense\.bias"),
    "no bias before the activation": Mutant(r"intermediate\.dense\.bias"),
    "no bias after the activation": Mutant(r"\d\.output\.dense\.bias"),
    "no bias of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.bias"),
    "no weight of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.weight", np.ones_like),
    "no bias of the norm after attention": Mutant(r"attention\.output\.LayerNorm\.bias"),
    "no bias of the norm after the MLP": Mutant(r"\d\.output\.LayerNorm\.bias"),
    "no positions": Mutant(r"position_embeddings"),
    "positions shifted by one": Mutant(r"position_embeddings", _shift_positions),
    "no token types": Mutant(r"token_type_embeddings"),
    "GELU by tanh": Mutant(config={"hidden_act": "gelu_new"}),
    "another epsilon": Mutant(config={"layer_norm_eps": 1e-5}),
}

# Where positions start is read from the padding id, which BERT does not do.
ROBERTA: Mutants = ENCODER | {
    "positions from 1": Mutant(config={"pad_token_id": 0}),
    "positions from 0": Mutant(r"position_embeddings", lambda table: np.roll(table, 2, axis=0)),
}

BERT_SCORES: Mutants = ENCODER | {
    "no bias of the pooler": Mutant(r"pooler\.dense\.bias"),
    "no bias of the classifier": Mutant(r"classifier\.bias"),
}

ROBERTA_SCORES: Mutants = ROBERTA | {
    "no bias of the head's first layer": Mutant(r"classifier\.dense\.bias"),
    "no bias of the head's last layer": Mutant(r"classifier\.out_proj\.bias"),
}
