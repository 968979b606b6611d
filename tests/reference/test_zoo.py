"""The zoo is what its values were computed from, and every checkpoint has details to get wrong."""

from pathlib import Path

import pytest
from reference import archive
from reference.zoo import values
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.registry import GROUPS

MOST_BYTES, MOST_BYTES_IN_ALL = 1_500_000, 5_000_000


@pytest.mark.parametrize("group", GROUPS)
def test_weights_are_those_that_the_values_were_computed_from(group: str, tmp_path: Path) -> None:
    reference = values.read(group)
    assert set(reference.header["weights_sha256"]) == set(GROUPS[group])
    for name in GROUPS[group]:
        values.write_checkpoint(name, reference, tmp_path / name)


@pytest.mark.parametrize("group", GROUPS)
def test_every_mutant_was_seen_to_move_the_values(group: str) -> None:
    distances = values.read(group).header["mutants"]
    for name, checkpoint in GROUPS[group].items():
        assert checkpoint.mutants
        assert set(distances[name]) == set(checkpoint.mutants), f"run make_zoo.py {group} again"
        assert min(distances[name].values()) >= 10 * checkpoint.tolerance


def test_lengths_run_from_one_token_to_the_limit() -> None:
    for name, checkpoint in _all().items():
        lengths = values.read(values.GROUP_OF[name]).arrays[f"{name}/sequences/lengths"]
        if not checkpoint.excludes_prompt:
            assert lengths.min() == 1
        assert lengths.max() == checkpoint.max_tokens


def test_names_are_unique() -> None:
    assert len(_all()) == sum(map(len, GROUPS.values()))


def test_values_are_small_files() -> None:
    sizes = {path.name: path.stat().st_size for path in archive.DATA.iterdir()}
    assert max(sizes.values()) <= MOST_BYTES
    assert sum(sizes.values()) <= MOST_BYTES_IN_ALL


def _all() -> dict[str, Checkpoint]:
    return {name: entry for group in GROUPS.values() for name, entry in group.items()}
