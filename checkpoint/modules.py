"""The modules of a sentence-transformers checkpoint, in the order in which they run."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.json_file import read_object, read_objects
from checkpoint.spec import Module, Pooling

# The names of a Pooling's config, old (one boolean each) and new (the value of pooling_mode).
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
POOLINGS: Mapping[str, Pooling] = {"cls": "cls", "mean": "mean", "lasttoken": "last_token"}


def read_modules(directory: Path) -> tuple[Module, ...]:
    """The modules of modules.json; without one, a Transformer alone.

    Raises UnsupportedCheckpoint for a kind that would have to be left out, and for code of the
    checkpoint's own.
    """
    path = directory / "modules.json"
    if not path.is_file():
        return (_transformer(directory),)
    entries = read_objects(path)
    modules = tuple(_read_module(directory, entry) for entry in entries)
    if not modules or modules[0].kind != "Transformer":
        raise UnsupportedCheckpoint(f"{path}: the first module is not a Transformer")
    for module in modules[1:]:
        if module.kind == "Transformer":
            raise UnsupportedCheckpoint(f"{path}: there is more than one Transformer")
    return modules


def _read_module(directory: Path, entry: Mapping[str, Any]) -> Module:
    class_path = str(entry.get("type", ""))
    kind = class_path.rpartition(".")[2]
    known = kind in ("Transformer", "Pooling", "Dense", "Normalize")
    if not known or not class_path.startswith("sentence_transformers."):
        raise UnsupportedCheckpoint(
            f"{directory / 'modules.json'}: module {class_path!r} is not supported; leaving it "
            "out would give other vectors"
        )
    relative = PurePosixPath(str(entry.get("path", "")))
    if relative.is_absolute() or ".." in relative.parts:
        raise UnsupportedCheckpoint(f"{directory / 'modules.json'}: path {relative} leaves it")
    folder = directory / relative
    if kind == "Transformer":
        return _transformer(folder)
    config = folder / "config.json"
    if kind == "Normalize" and not config.is_file():  # it has nothing to configure
        return Module(kind, folder, {})
    return Module(kind, folder, read_object(config))


def _transformer(folder: Path) -> Module:
    return Module("Transformer", folder, read_object(folder / "config.json"))


def pooling_of(modules: Sequence[Module], hidden_size: int) -> Pooling:
    """The one Pooling, right after the Transformer. Raises UnsupportedCheckpoint otherwise."""
    at = [place for place, module in enumerate(modules) if module.kind == "Pooling"]
    if at != [1]:
        raise UnsupportedCheckpoint(
            f"{modules[0].directory}: modules.json must name one Pooling, right after the "
            "Transformer; how tokens become one vector is not guessed"
        )
    config, where = modules[1].config, modules[1].directory / "config.json"
    if config.get("include_prompt", True) is not True:
        raise UnsupportedCheckpoint(f"{where}: include_prompt: false is not supported")
    width = config.get("embedding_dimension", config.get("word_embedding_dimension", hidden_size))
    if width != hidden_size:
        raise UnsupportedCheckpoint(f"{where}: dimension {width}, but the model's is {hidden_size}")
    modes = _pooling_modes(config)
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise UnsupportedCheckpoint(
            f"{where}: pooling {' + '.join(modes) or 'of no kind'} is not supported; "
            f"one of {', '.join(POOLINGS)} is"
        )
    return POOLINGS[modes[0]]


def _pooling_modes(config: Mapping[str, Any]) -> list[str]:
    mode = config.get("pooling_mode")
    if isinstance(mode, str):
        return [mode]
    if isinstance(mode, list):
        return [str(one) for one in mode]
    return [name for flag, name in POOLING_FLAGS.items() if config.get(flag)]


def dim_of(modules: Sequence[Module], hidden_size: int) -> int:
    """The width of a row once every Dense has run. Checks that each fits the one before."""
    width = hidden_size
    for module in modules:
        if module.kind != "Dense":
            continue
        where = module.directory / "config.json"
        if module.config.get("in_features") != width:
            raise UnsupportedCheckpoint(f"{where}: in_features is not {width}")
        if module.config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
            raise UnsupportedCheckpoint(f"{where}: a Dense over single tokens is not supported")
        if module.config.get("use_residual"):
            raise UnsupportedCheckpoint(f"{where}: use_residual is not supported")
        out_features = module.config.get("out_features")
        if type(out_features) is not int or out_features < 1:
            raise UnsupportedCheckpoint(f"{where}: out_features is not a positive integer")
        width = out_features
    return width
