"""Create the environment of the libraries, apart from the product's: .peers/tokenizers.

python -m bench.tokenizers.environment
"""

import subprocess
import venv
from pathlib import Path

ENVIRONMENT = Path(".peers/tokenizers")

_PYTHON = ENVIRONMENT / "bin" / "python"
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class LibrariesMissing(Exception):
    """The environment is not there."""


def create() -> None:
    """A second call updates what the first made. Nothing is compiled, nor fetched later on."""
    venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    options = ("--quiet", "--only-binary", ":all:", "--requirement", str(_REQUIREMENTS))
    subprocess.run([str(_PYTHON), "-m", "pip", "install", *options], check=True)


def installed_python() -> Path:
    """The interpreter of the environment. Raises LibrariesMissing."""
    if not _PYTHON.exists():
        message = f"no {_PYTHON} here: run python -m bench.tokenizers.environment first"
        raise LibrariesMissing(message)
    return _PYTHON


if __name__ == "__main__":
    create()
