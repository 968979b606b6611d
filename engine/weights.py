"""The tensors of a checkpoint, by their plain names, each taken once or known to be unused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import CheckpointError

CPU = torch.device("cpu")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
# Buffers that older checkpoints saved: they follow from config.json.
_COMPUTED = (".rotary_emb.inv_freq", "embeddings.position_ids")


class Weights:
    """Reads safetensors, never pickles. Raises CheckpointError, naming tensor and file."""

    def __init__(
        self,
        paths: Sequence[Path],
        prefixes: Sequence[str] = (),
        place: torch.device = CPU,
    ) -> None:
        """Open all shards, to read into `place`. The first of `prefixes` that starts a name is not
        part of it.
        """
        if not paths:
            raise CheckpointError("the checkpoint has no safetensors file")
        self._tensors: dict[str, tuple[Any, str]] = {}  # plain name -> (shard, name in the shard)
        self._unused: set[str] = set()
        self._files = ", ".join(path.name for path in paths)
        for path in paths:
            self._open(path, prefixes, place)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor in float32, of this shape (-1: any size). A tied one may be taken again."""
        shard, stored_name = self._find(name)
        tensor: Tensor = shard.get_tensor(stored_name)
        _check(stored_name, tensor.dtype, tensor.shape, shape)
        return tensor.float()

    def take_rows(self, name: str, rows: Sequence[int], width: int) -> Tensor:
        """Some rows of a matrix, in float32, without reading the others. [rows, width]"""
        shard, stored_name = self._find(name)
        matrix = shard.get_slice(stored_name)
        _check(stored_name, matrix[0:0].dtype, matrix.get_shape(), (-1, width))
        height = matrix.get_shape()[0]
        for row in rows:
            if not 0 <= row < height:
                raise CheckpointError(f"tensor {stored_name!r} has {height} rows, none {row}")
        taken: Tensor = torch.cat([matrix[row : row + 1] for row in rows])
        return taken.float()

    def ignore(self, prefix: str) -> None:
        """Names that start so hold nothing this model computes with."""
        self._unused -= {name for name in self._unused if name.startswith(prefix)}

    def finish(self) -> None:
        """Raise if a tensor is left: a part of the model that nobody computes."""
        if self._unused:
            names = sorted(self._tensors[name][1] for name in self._unused)
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            raise CheckpointError(f"unexpected tensors: {', '.join(names[:5])}{more}")

    def _find(self, name: str) -> tuple[Any, str]:
        if name not in self._tensors:
            raise CheckpointError(f"tensor {name!r} is missing from {self._files}")
        self._unused.discard(name)
        return self._tensors[name]

    def _open(self, path: Path, prefixes: Sequence[str], place: torch.device) -> None:
        try:
            shard = safe_open(path, framework="pt", device=str(place))
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path.name} cannot be read: {error}") from error
        for stored_name in shard.keys():  # type: ignore[no-untyped-call] # noqa: SIM118
            if stored_name.endswith(_COMPUTED):
                continue
            name = _plain_name(stored_name, prefixes)
            if name in self._tensors:
                raise CheckpointError(f"tensor {stored_name!r} is there twice, as {name!r}")
            self._tensors[name] = (shard, stored_name)
            self._unused.add(name)


def _check(
    stored_name: str, dtype: torch.dtype, shape: Sequence[int], wanted: Sequence[int]
) -> None:
    if dtype not in _FLOATS:
        raise CheckpointError(f"tensor {stored_name!r} is {dtype}, not a float")
    if len(shape) != len(wanted) or any(
        want not in (-1, have) for want, have in zip(wanted, shape, strict=True)
    ):
        raise CheckpointError(f"tensor {stored_name!r} has shape {list(shape)}, not {list(wanted)}")


def _plain_name(name: str, prefixes: Sequence[str]) -> str:
    for prefix in prefixes:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    # Checkpoints converted from TensorFlow call a norm's parameters gamma and beta.
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name
