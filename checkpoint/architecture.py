"""Which family a config.json belongs to. Code of the checkpoint's own is never run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.families import FAMILIES, Family

# Classes of repositories' own code whose computation is a family's here.
_KNOWN_CODE = frozenset(name for f in FAMILIES.values() for name in (*f.pooled, *f.score))


def family_of(where: Path, config: Mapping[str, Any], known: str | None = None) -> Family:
    """The family of a config.json, read from `where`.

    `known` is the family of a published model of that name, for files that leave it open. Raises
    UnsupportedCheckpoint, naming what is not known.
    """
    architecture = architecture_of(where, config)
    _refuse_foreign_code(where, config, architecture)
    family = _of_architecture(where, architecture)
    if family.name == "llama" and _sees_both_ways(where, config, known):
        family = FAMILIES["llama_bidirectional"]
    _check_model_type(where, config, architecture)
    return family


def architecture_of(where: Path, config: Mapping[str, Any]) -> str:
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1:
        raise UnsupportedCheckpoint(f"{where} must name one architecture, not {architectures!r}")
    return str(architectures[0])


def why_refused(family: str, config: Mapping[str, Any], dtype: str) -> str | None:
    """What goes wrong with a model in `dtype`; None: nothing that is known."""
    refused = FAMILIES[family].refused_dtypes.get(str(config.get("model_type")), {})
    return refused.get(dtype)


def _of_architecture(where: Path, architecture: str) -> Family:
    for family in FAMILIES.values():
        if architecture in family.pooled or architecture in family.score:
            return family
    raise UnsupportedCheckpoint(f"{where}: architecture {architecture!r} is not supported")


def _refuse_foreign_code(where: Path, config: Mapping[str, Any], architecture: str) -> None:
    """JinaBERT calls itself BertModel, and says only here that its positions are others."""
    code = _own_code(config, architecture)
    if code is None and "jina-bert" in str(config.get("_name_or_path")):
        code = "JinaBertModel"
    if code is not None and code not in _KNOWN_CODE:
        raise UnsupportedCheckpoint(
            f"{where}: {architecture} is in fact {code}, by code of the checkpoint's own, which is "
            "never run; that architecture is not supported"
        )


def _own_code(config: Mapping[str, Any], architecture: str) -> str | None:
    """The class that auto_map puts in the place of the architecture."""
    auto_map = config.get("auto_map") or {}
    suffix = architecture.rpartition("For")[2]
    path = auto_map.get(f"AutoModelFor{suffix}") if suffix == "SequenceClassification" else None
    path = path or auto_map.get("AutoModel")
    return None if path is None else str(path).rpartition(".")[2]


def _sees_both_ways(where: Path, config: Mapping[str, Any], known: str | None) -> bool:
    if config.get("is_causal") is not None:
        return config["is_causal"] is False
    if config.get("use_bidirectional_attention") is not None:
        return bool(config["use_bidirectional_attention"])
    if _own_code(config, "") not in FAMILIES["llama"].pooled:
        return False
    # gte-Qwen2's code sees both ways; its class is called Qwen2Model all the same.
    if known is None:
        raise UnsupportedCheckpoint(
            f"{where}: auto_map names code that is never run, and nothing says whether its "
            'attention is causal: add "is_causal": true, or false'
        )
    return known == "llama_bidirectional"


def _check_model_type(where: Path, config: Mapping[str, Any], architecture: str) -> None:
    model_type = config.get("model_type")
    if model_type is None:
        return
    named = _of_architecture(where, architecture)
    if model_type not in named.model_types:
        raise UnsupportedCheckpoint(
            f"{where}: architecture {architecture!r} with model_type {model_type!r} is not known"
        )
