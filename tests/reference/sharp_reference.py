"""The sharp checkpoints beside the values that the reference libraries gave for them."""

from pathlib import Path

from reference import archive, sharp
from reference.archive import Reference


def read() -> Reference:
    return archive.read("sharp.npz")


def write_checkpoint(name: str, reference: Reference, directory: Path) -> Path:
    """Raises AssertionError where the weights are not those that the reference saw."""
    sharp.write_checkpoint(name, directory)
    assert archive.weights_sha256(directory) == reference.header["weights_sha256"][name], (
        f"the weights of {name} changed: run make_sharp.py again"
    )
    return directory
