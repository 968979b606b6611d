"""A checkpoint's own files, read into what the gateway and the engine need to know."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.errors import CheckpointError, CheckpointNotFound, UnsupportedCheckpoint
from checkpoint.families import FAMILIES, PROMPTS, Family
from checkpoint.find import FoundModel
from checkpoint.json_file import read_object
from checkpoint.limits import token_limit
from checkpoint.modules import dim_of, pooling_of, read_modules
from checkpoint.spec import ModelFiles, ModelSpec, Module, Task, TokenInput
from checkpoint.weights import find_weights


@dataclass(frozen=True)
class ReadOptions:
    """What the operator may decide for a model."""

    max_input_tokens: int | None = None  # None: what the checkpoint says
    matryoshka: tuple[int, ...] = ()  # empty: what the checkpoint says
    token_input: TokenInput = "cl100k_decode"  # noqa: S105  tokens, not a secret


def read_model(
    found: FoundModel, options: ReadOptions = ReadOptions()
) -> tuple[ModelSpec, ModelFiles]:
    """Read config.json, modules.json and what they name; open no weights.

    `dtype`, `shard_tokens` and `runtime` keep their defaults: they are the worker's to fill in.
    Raises CheckpointError for whatever could not be served faithfully, naming it.
    """
    modules = read_modules(found.directory)
    directory, config = modules[0].directory, modules[0].config
    family, task = _family_and_task(directory, config, modules)
    hidden_size = _positive(config, "hidden_size", directory)
    dim = dim_of(modules, hidden_size) if task == "embed" else 1
    limit = token_limit(directory, config, family, options.max_input_tokens)
    prompts, default_prompt = _prompts(found.directory, found.id)
    spec = ModelSpec(
        id=found.id,
        task=task,
        family=family.name,
        dim=dim,
        max_tokens=limit.tokens,
        max_tokens_source=limit.source,
        vocab_size=_positive(config, "vocab_size", directory),
        tokenizer_sha256=hashlib.sha256(read_tokenizer(directory)).hexdigest(),
        revision=found.revision,
        aliases=found.aliases,
        matryoshka=_matryoshka(
            options.matryoshka or config.get("matryoshka_dimensions") or (), dim
        ),
        pooling=pooling_of(modules, hidden_size) if task == "embed" else None,
        normalizes=modules[-1].kind == "Normalize",
        prompts=prompts,
        default_prompt=default_prompt,
        token_input=options.token_input,
    )
    for module in modules:
        if module.kind == "Dense":
            find_weights(module.directory)  # missing ones are known before anything is loaded
    return spec, ModelFiles(directory, config, modules, find_weights(directory))


def _family_and_task(
    directory: Path, config: Mapping[str, Any], modules: Sequence[Module]
) -> tuple[Family, Task]:
    where = directory / "config.json"
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1:
        raise UnsupportedCheckpoint(f"{where} must name one architecture, not {architectures!r}")
    for family in FAMILIES.values():
        task = family.task_of(architectures[0])
        if task is not None:
            break
    else:
        raise UnsupportedCheckpoint(f"{where}: architecture {architectures[0]!r} is not supported")
    if task == "score":
        if len(modules) > 1:
            raise UnsupportedCheckpoint(
                f"{where} names {architectures[0]}, a model of scores, but modules.json pools it"
            )
        _check_one_label(where, config)
    return family, task


def _check_one_label(where: Path, config: Mapping[str, Any]) -> None:
    # transformers saves num_labels only through id2label, and takes two where neither is there.
    labels = config.get("num_labels", len(config.get("id2label") or (0, 1)))
    if labels != 1:
        raise UnsupportedCheckpoint(f"{where}: {labels} labels; a reranker has one, its score")


def _positive(config: Mapping[str, Any], key: str, directory: Path) -> int:
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise UnsupportedCheckpoint(f"{directory / 'config.json'}: {key} is {value!r}")
    return value


def _prompts(directory: Path, model_id: str) -> tuple[Mapping[str, str], str | None]:
    """The checkpoint's prompts, or the built-in ones of a known model that came without."""
    path = directory / "config_sentence_transformers.json"
    config = read_object(path) if path.is_file() else {}
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise UnsupportedCheckpoint(f"{path}: prompts are not a mapping of names to texts")
    default = config.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise UnsupportedCheckpoint(f"{path}: default_prompt_name {default!r} is not in prompts")
    if not any(prompts.values()):  # sentence-transformers writes empty ones of its own accord
        prompts = PROMPTS.get(model_id.rpartition("/")[2].lower(), prompts)
    return prompts, default


def _matryoshka(sizes: Sequence[int], dim: int) -> tuple[int, ...]:
    for size in sizes:
        if type(size) is not int or not 1 <= size <= dim:
            raise CheckpointError(f"matryoshka size {size!r} is not within 1 and {dim}")
    return tuple(sorted(set(sizes), reverse=True))


def read_tokenizer(directory: Path) -> bytes:
    """tokenizer.json of a `ModelFiles.directory`."""
    path = directory / "tokenizer.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointNotFound(
            f"{path} is missing: transformers' AutoTokenizer.from_pretrained(...)."
            "save_pretrained(...) writes it"
        ) from error
    _check_case(directory)
    return data


def _check_case(directory: Path) -> None:
    """sentence_bert_config.json may ask for lower case where the tokenizer keeps it."""
    path = directory / "sentence_bert_config.json"
    if not path.is_file() or not read_object(path).get("do_lower_case"):
        return
    normalizer = read_object(directory / "tokenizer.json").get("normalizer") or {}
    steps = [normalizer, *normalizer.get("normalizers", ())]
    if not any(step.get("lowercase") or step.get("type") == "Lowercase" for step in steps):
        raise UnsupportedCheckpoint(f"{path}: do_lower_case, but tokenizer.json keeps the case")
