"""Steps by the kernels in C++: the same bits in any batch, from any thread, by one pool."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sequences import batch_of, random_sequences, rows_of

from engine.engine import Engine

DTYPES = ("float32", "bfloat16")
LENGTHS = [1, 2, 16, 17, 33, 64, 100, 128, 200, 256, 5, 5, 31]


@pytest.fixture(params=DTYPES)
def minilm_engine(request: pytest.FixtureRequest, load_minilm: Any) -> Engine:
    engine: Engine = load_minilm(request.param, "cpu")
    return engine


def test_row_has_the_same_bits_in_any_batch(minilm_engine: Engine) -> None:
    random = np.random.default_rng(1)
    sequences = random_sequences(LENGTHS, 30522)
    alone = np.concatenate([rows_of(minilm_engine, [s]) for s in sequences])
    for _ in range(4):
        order = random.permutation(len(sequences))
        together = rows_of(minilm_engine, [sequences[i] for i in order])
        np.testing.assert_array_equal(together, alone[order])


def test_budget_of_one_token_is_enough(minilm_engine: Engine) -> None:
    sequences = random_sequences([1] * 5, 30522)
    together = rows_of(minilm_engine, sequences)
    for row, sequence in zip(together, sequences, strict=True):
        np.testing.assert_array_equal(rows_of(minilm_engine, [sequence])[0], row)


def test_nothing_is_padded(minilm_engine: Engine) -> None:
    output = minilm_engine.step(batch_of(random_sequences([3, 7, 19], 30522))).wait()
    assert output.padded_tokens == 0


def test_callers_at_the_same_time_do_not_meet(minilm_engine: Engine) -> None:
    batches = [
        random_sequences(lengths, 30522, seed)
        for seed, lengths in enumerate(([250, 3, 40], [1], [16] * 9, [128, 129, 5]))
    ]
    expected = [rows_of(minilm_engine, batch) for batch in batches]

    def repeated(i: int) -> list[np.ndarray]:
        return [rows_of(minilm_engine, batches[i]) for _ in range(6)]

    with ThreadPoolExecutor(len(batches)) as threads:
        for rows, wanted in zip(threads.map(repeated, range(len(batches))), expected, strict=True):
            for row in rows:
                np.testing.assert_array_equal(row, wanted)


def test_threads_are_those_of_torch() -> None:
    """With a second libgomp there would be two pools, which spin on the same cores."""
    program = """
from engine.cpu.binding import compiled, load
load(compiled())
maps = open("/proc/self/maps").read().split()
print(len({path for path in maps if "libgomp" in path}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout == "1\n"
