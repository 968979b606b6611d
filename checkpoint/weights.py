"""The Transformer's weight files: safetensors, one or sharded. Pickles are never opened."""

from pathlib import Path

from checkpoint.errors import CheckpointNotFound, UnsupportedCheckpoint
from checkpoint.json_file import read_object


def find_weights(directory: Path) -> tuple[Path, ...]:
    """model.safetensors, or the shards that model.safetensors.index.json names."""
    single = directory / "model.safetensors"
    if single.is_file():
        return (single,)
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        return _shards(index)
    pickles = sorted(
        path.name for kind in ("*.bin", "*.pt", "*.ckpt") for path in directory.glob(kind)
    )
    if pickles:
        raise UnsupportedCheckpoint(
            f"{directory} has only {', '.join(pickles)}: weights are read from safetensors only, "
            "since loading a pickle runs its code; convert it with transformers' save_pretrained"
        )
    raise CheckpointNotFound(f"{single} is missing")


def _shards(index: Path) -> tuple[Path, ...]:
    names = read_object(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise UnsupportedCheckpoint(f"{index} has no weight_map")
    shards = []
    for name in sorted({str(name) for name in names.values()}):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise UnsupportedCheckpoint(f"{index} names {name!r}: not a safetensors file beside it")
        if not (index.parent / name).is_file():
            raise CheckpointNotFound(f"{index.parent / name} is missing")
        shards.append(index.parent / name)
    return tuple(shards)
