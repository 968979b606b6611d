"""Reference values on disk: arrays, and a header that says what made them."""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, eq=False)
class Reference:
    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def read(name: str) -> Reference:
    with np.load(DATA / name, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files if key != "header"}
        return Reference(json.loads(bytes(archive["header"])), arrays)


def write(name: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    text = json.dumps({**header, "versions": _versions()}, sort_keys=True).encode()
    DATA.mkdir(exist_ok=True)
    np.savez_compressed(
        DATA / name, allow_pickle=False, header=np.frombuffer(text, np.uint8), **arrays
    )


def pack(sequences: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Ids of all sequences one after another [T], and their lengths [B]."""
    ids = np.concatenate([np.asarray(sequence, np.int32) for sequence in sequences])
    return ids, np.asarray([len(sequence) for sequence in sequences], np.int32)


def unpack(ids: NDArray[Any], lengths: NDArray[np.int32]) -> Iterator[NDArray[Any]]:
    """The inverse of `pack`."""
    return iter(np.split(ids, np.cumsum(lengths)[:-1]))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_sha256(directory: Path) -> dict[str, str]:
    """Of every safetensors file of a checkpoint."""
    return {
        path.relative_to(directory).as_posix(): sha256(path)
        for path in sorted(directory.rglob("*.safetensors"))
    }


def _versions() -> dict[str, str]:
    libraries = ("sentence-transformers", "transformers", "tokenizers", "torch", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in libraries}
