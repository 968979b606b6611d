"""The modules of a sentence-transformers checkpoint, in the order in which they run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.json_file import read_object, read_objects
from checkpoint.spec import Module

# sentence-transformers once named the Transformer's settings after the model's class; it still
# reads them all, and the first that is there counts.
SETTINGS_FILES = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)

# By the last part of the class path.
OWN = frozenset(
    {
        "Transformer",
        "MLMTransformer",
        "Pooling",
        "Dense",
        "LayerNorm",
        "Normalize",
        "SpladePooling",
        "MultiVectorMask",
        "LogitScore",
    }
)
# Of others, by the whole path: what these do is known, and their code is never loaded.
FOREIGN = {
    "st_quantize.FlexibleQuantizer": "FlexibleQuantizer",
    "pylate.models.Dense.Dense": "Dense",
}
_CHOOSING = ("Router", "Asym")
_NEEDS_NO_CONFIG = ("Normalize", "MultiVectorMask")


@dataclass(frozen=True)
class Chain:
    """The modules, and what the first of them, the Transformer, is loaded for."""

    modules: tuple[Module, ...]
    transformer_task: str | None  # in sentence-transformers' words; None: there is no modules.json
    settings: Mapping[str, Any]  # of the Transformer


def read_chain(directory: Path) -> Chain:
    """The modules of modules.json; without one, a Transformer alone.

    Raises UnsupportedCheckpoint for a kind that would have to be left out, and for code of the
    checkpoint's own.
    """
    path = directory / "modules.json"
    if not path.is_file():
        return Chain((_transformer(directory),), None, transformer_settings(directory))
    entries = read_objects(path)
    modules = [_read_module(directory, entry) for entry in entries]
    if modules and str(entries[-1].get("type", "")).startswith("pylate."):
        # PyLate's own class normalises the rows, and modules.json does not say so.
        modules.append(Module("Normalize", directory, {"module_input_name": "token_embeddings"}))
    kinds = [module.kind for module in modules]
    if not kinds or not kinds[0].endswith("Transformer"):
        raise UnsupportedCheckpoint(f"{path}: the first module is not a Transformer")
    if any(kind.endswith("Transformer") for kind in kinds[1:]):
        raise UnsupportedCheckpoint(f"{path}: there is more than one Transformer")
    settings = transformer_settings(modules[0].directory)
    default = "fill-mask" if kinds[0] == "MLMTransformer" else "feature-extraction"
    return Chain(tuple(modules), str(settings.get("transformer_task", default)), settings)


def transformer_settings(directory: Path) -> Mapping[str, Any]:
    """What sentence-transformers keeps beside the Transformer's config.json."""
    for name in SETTINGS_FILES:
        if (directory / name).is_file():
            return read_object(directory / name)
    return {}


def _read_module(directory: Path, entry: Mapping[str, Any]) -> Module:
    class_path = str(entry.get("type", ""))
    kind = _kind(directory / "modules.json", class_path)
    folder = directory / _relative(directory / "modules.json", str(entry.get("path", "")))
    if kind.endswith("Transformer"):
        return _transformer(folder, kind)
    if kind == "FlexibleQuantizer":  # its folder is the model's own, and so is the config there
        return Module(kind, folder, {})
    config = folder / "config.json"
    if kind in _NEEDS_NO_CONFIG and not config.is_file():
        return Module(kind, folder, {})
    values = read_object(config)
    if class_path.startswith("pylate."):  # ColBERT's projection is of tokens, by definition
        values = {"module_input_name": "token_embeddings", **values}
    return Module(kind, folder, values)


def _kind(where: Path, class_path: str) -> str:
    kind = class_path.rpartition(".")[2]
    if class_path in FOREIGN:
        return FOREIGN[class_path]
    if class_path.startswith("sentence_transformers."):
        if kind in OWN:
            return kind
        if kind in _CHOOSING:
            raise UnsupportedCheckpoint(
                f"{where}: module {class_path!r} sends queries and documents through different "
                "models, which is not supported"
            )
    raise UnsupportedCheckpoint(
        f"{where}: module {class_path!r} is not supported; leaving it out would give other vectors"
    )


def _relative(where: Path, path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise UnsupportedCheckpoint(f"{where}: path {relative} leaves it")
    return relative


def _transformer(folder: Path, kind: str = "Transformer") -> Module:
    return Module(kind, folder, read_object(folder / "config.json"))
