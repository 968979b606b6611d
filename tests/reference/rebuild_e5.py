"""multilingual-e5-small, of the files that `make test-data` brings."""

from pathlib import Path

from reference import packaged

from bench.peers.prepare.rebuild_e5 import rebuild_e5


def write_e5(directory: Path) -> None:
    """Write the directory; about 240 MB. Raises ValueError where the packages' files changed."""
    rebuild_e5(packaged.locate("e5-weights"), packaged.locate("e5"), directory)
