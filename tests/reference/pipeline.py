"""A checkpoint served without the server: files read, texts tokenized, rows computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from reference.archive import Reference

from checkpoint.find import find_model
from checkpoint.read import read_model
from checkpoint.spec import ModelSpec
from checkpoint.tokenizer import Encoded, TextTokenizer
from engine.batch import Batch
from engine.engine import Engine, EngineConfig

Rows = NDArray[np.float32]
STEP_TOKENS = 2048  # the batch budget of a worker on a CPU


@dataclass(frozen=True, eq=False)
class Sequences:
    """Ids and token types of each sequence."""

    input_ids: Sequence[NDArray[np.int32]]
    type_ids: Sequence[NDArray[np.uint8]]

    @classmethod
    def of(
        cls,
        input_ids: NDArray[np.int32],  # [T]
        lengths: NDArray[np.int32],  # [B]
        type_ids: NDArray[np.uint8] | None = None,  # [T]
    ) -> "Sequences":
        types = np.zeros(input_ids.size, np.uint8) if type_ids is None else type_ids
        ends = np.cumsum(lengths)[:-1]
        return cls(np.split(input_ids, ends), np.split(types, ends))

    @classmethod
    def stored(cls, reference: Reference, key: str) -> "Sequences":
        """What the reference was computed from."""
        names = ("input_ids", "lengths", "type_ids")
        return cls.of(*(reference.arrays[f"{key}/{name}"] for name in names))

    @classmethod
    def encoded(cls, encoded: Encoded) -> "Sequences":
        return cls.of(encoded.input_ids, encoded.lengths, encoded.type_ids)

    def __len__(self) -> int:
        return len(self.input_ids)

    def take(self, indices: Sequence[int]) -> "Sequences":
        return Sequences([self.input_ids[i] for i in indices], [self.type_ids[i] for i in indices])


@dataclass(frozen=True, eq=False)
class Pipeline:
    spec: ModelSpec
    tokenizer: TextTokenizer
    engine: Engine

    @classmethod
    def load(cls, source: str | Path, dtype: str = "float32", kernels: str = "plain") -> "Pipeline":
        spec, files = read_model(find_model(str(source)))
        tokenizer_json = (files.directory / "tokenizer.json").read_bytes()
        return cls(
            spec,
            TextTokenizer(tokenizer_json, spec.max_tokens, spec.vocab_size),
            Engine.load(spec, files, EngineConfig(dtype=dtype, kernels=kernels)),
        )

    def rows(self, sequences: Sequences) -> Rows:
        """[B, D], in steps of at most `STEP_TOKENS`; normalised where the modules say so."""
        steps = [self._step(sequences.take(indices)) for indices in _steps(sequences)]
        rows = np.concatenate(steps)
        return normalised(rows) if self.spec.normalizes else rows

    def rows_by(self, sequences: Sequences, batches: Sequence[Sequence[int]]) -> Rows:
        """As `rows`, but in these batches, which name each sequence once."""
        rows: dict[int, NDArray[np.float32]] = {}
        for indices in batches:
            rows.update(zip(indices, self._step(sequences.take(indices)), strict=True))
        stacked = np.stack([rows[i] for i in range(len(sequences))])
        return normalised(stacked) if self.spec.normalizes else stacked

    def _step(self, sequences: Sequences) -> Rows:
        batch = Batch(
            self.spec.task,
            np.concatenate(sequences.input_ids),
            np.array([ids.size for ids in sequences.input_ids], np.int32),
            np.concatenate(sequences.type_ids),
        )
        output = self.engine.step(batch).wait()
        if not output.finite.all():
            raise AssertionError("a row is not finite")
        return output.rows


def normalised(rows: Rows) -> Rows:
    units: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units


def cosines(rows: Rows, others: Rows) -> NDArray[np.float64]:
    """Of each row with its counterpart [B]."""
    left, right = rows.astype(np.float64), others.astype(np.float64)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    near: NDArray[np.float64] = (left * right).sum(axis=1) / norms
    return near


def _steps(sequences: Sequences) -> list[list[int]]:
    steps: list[list[int]] = [[]]
    tokens = 0
    for index, ids in enumerate(sequences.input_ids):
        if steps[-1] and tokens + ids.size > STEP_TOKENS:
            steps.append([])
            tokens = 0
        steps[-1].append(index)
        tokens += ids.size
    return steps
