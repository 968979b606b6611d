"""The checkpoints of the zoo beside the values that the reference libraries gave for them."""

from pathlib import Path

from reference import archive
from reference.archive import Reference
from reference.mutants import mutate
from reference.zoo import checkpoint as files
from reference.zoo.registry import GROUPS

GROUP_OF = {name: group for group, checkpoints in GROUPS.items() for name in checkpoints}


def read(group: str) -> Reference:
    return archive.read(f"zoo-{group}.npz")


def write_checkpoint(name: str, reference: Reference, directory: Path) -> Path:
    """Raises AssertionError where the weights are not those that the reference saw."""
    files.write(name, GROUPS[GROUP_OF[name]][name], directory)
    assert archive.weights_sha256(directory) == reference.header["weights_sha256"][name], (
        f"the weights of {name} changed: run make_zoo.py {GROUP_OF[name]} again"
    )
    return directory


def write_mutant(name: str, detail: str, directory: Path) -> Path:
    """The checkpoint with one detail wrong, of those that its entry in the zoo names."""
    checkpoint = GROUPS[GROUP_OF[name]][name]
    files.write(name, checkpoint, directory)
    mutate(directory, checkpoint.mutants[detail])
    return directory
