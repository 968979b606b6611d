"""Write data/zoo-<group>.npz: what transformers and sentence-transformers make of the zoo.

    pip install sentence-transformers==6.2.0 transformers==5.24.0
    PYTHONPATH=tests python tests/reference/make_zoo.py [GROUP ...]

Arrays below a checkpoint's name: `texts` (embeddings) or `pairs` (scores), and `sequences` (bare
ids, both), each with `input_ids` int32 [T], `type_ids` uint8 [T], `lengths` int32 [B] and `rows`
float32 [B, D]. The header names the weights, and for each mutant how far it moves the rows of
`sequences`. The libraries ran in float32 with eager attention, padded, 16 sequences at a time.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from reference import archive
from reference.mutants import mutate
from reference.zoo import checkpoint as files
from reference.zoo import registry, runs
from reference.zoo.checkpoint import Checkpoint

LEAST_MUTANT = 10  # in tolerances of the checkpoint
MOST_NOISE = 1 / 4  # of it, in the reference: padded, against one sequence at a time
LEAST_DEVIATION = 0.1  # of the entries


def main(groups: list[str]) -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for group in groups or registry.GROUPS:
        header: dict[str, Any] = {"weights_sha256": {}, "mutants": {}}
        arrays: dict[str, NDArray[Any]] = {}
        for name, checkpoint in registry.GROUPS[group].items():
            with tempfile.TemporaryDirectory() as root:
                directory = Path(root) / name
                files.write(name, checkpoint, directory)
                header["weights_sha256"][name] = archive.weights_sha256(directory)
                files.write_for_transformers(checkpoint, directory)
                reference = runs.answers(checkpoint, directory)
                _check(name, checkpoint, directory, reference)
                arrays |= {f"{name}/{key}": array for key, array in reference.items()}
            header["mutants"][name] = _mutants(name, checkpoint, reference["sequences/rows"])
        archive.write(f"zoo-{group}.npz", header, arrays)


def _check(
    name: str, checkpoint: Checkpoint, directory: Path, reference: dict[str, NDArray[Any]]
) -> None:
    for key, rows in reference.items():
        if key.endswith("/rows"):
            if not np.isfinite(rows).all():
                raise SystemExit(f"{name}: {key} is not finite")
            if rows.std() < LEAST_DEVIATION:
                raise SystemExit(f"{name}: {key} deviates by {rows.std():.3f} only")
    alone = runs.rows_of_sequences(checkpoint, directory, batch=1)
    noise = np.abs(alone - reference["sequences/rows"]).max()
    print(f"{name}: noise {noise:.1e}, deviation {alone.std():.2f}", flush=True)
    if noise > MOST_NOISE * checkpoint.tolerance:
        raise SystemExit(f"{name}: the reference depends on its batch by {noise:.1e}")


def _mutants(name: str, checkpoint: Checkpoint, rows: NDArray[np.float32]) -> dict[str, float]:
    """How far each mutant moves the rows. Raises where one hardly does."""
    distances = {}
    for detail, mutant in checkpoint.mutants.items():
        with tempfile.TemporaryDirectory() as root:
            directory = Path(root) / name
            files.write(name, checkpoint, directory)
            mutate(directory, mutant)
            files.write_for_transformers(checkpoint, directory)
            mutated = runs.rows_of_sequences(checkpoint, directory)
        distance = float(np.abs(mutated - rows).max())
        print(f"    {detail}: {distance:.1e}", flush=True)
        if not distance >= LEAST_MUTANT * checkpoint.tolerance:
            raise SystemExit(f"{name}: {detail} moves the rows by {distance:.1e} only")
        distances[detail] = float(f"{distance:.2g}")
    return distances


if __name__ == "__main__":
    main(sys.argv[1:])
