"""The tensors of a checkpoint, by their plain names, each taken once or known to be unused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import CheckpointError

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Weights:
    """Reads safetensors, never pickles. Raises CheckpointError, naming tensor and file."""

    def __init__(self, paths: Sequence[Path], prefixes: Sequence[str] = ()) -> None:
        """Open all shards. The first of `prefixes` that starts a name is not part of it."""
        if not paths:
            raise CheckpointError("the checkpoint has no safetensors file")
        self._tensors: dict[str, tuple[Any, str]] = {}  # plain name -> (shard, name in the shard)
        self._files = ", ".join(path.name for path in paths)
        for path in paths:
            self._open(path, prefixes)

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor in float32, of this shape (-1: any size)."""
        if name not in self._tensors:
            raise CheckpointError(f"tensor {name!r} is missing from {self._files}")
        shard, stored_name = self._tensors.pop(name)
        tensor: Tensor = shard.get_tensor(stored_name)
        if tensor.dtype not in _FLOATS:
            raise CheckpointError(f"tensor {stored_name!r} is {tensor.dtype}, not a float")
        if tensor.dim() != len(shape) or any(
            want not in (-1, have) for want, have in zip(shape, tensor.shape, strict=True)
        ):
            raise CheckpointError(
                f"tensor {stored_name!r} has shape {list(tensor.shape)}, not {list(shape)}"
            )
        return tensor.float()

    def ignore(self, prefix: str) -> None:
        """Names that start so hold nothing this model computes with."""
        for name in [name for name in self._tensors if name.startswith(prefix)]:
            del self._tensors[name]

    def finish(self) -> None:
        """Raise if a tensor is left: a part of the model that nobody computes."""
        if self._tensors:
            names = sorted(stored_name for _, stored_name in self._tensors.values())
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            raise CheckpointError(f"unexpected tensors: {', '.join(names[:5])}{more}")

    def _open(self, path: Path, prefixes: Sequence[str]) -> None:
        try:
            shard = safe_open(path, framework="pt")
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path.name} cannot be read: {error}") from error
        for stored_name in shard.keys():  # type: ignore[no-untyped-call] # noqa: SIM118
            name = _plain_name(stored_name, prefixes)
            if name in self._tensors:
                raise CheckpointError(f"tensor {stored_name!r} is there twice, as {name!r}")
            self._tensors[name] = (shard, stored_name)


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
