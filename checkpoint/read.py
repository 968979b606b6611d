"""A checkpoint's own files, read into what the gateway and the engine need to know."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.architecture import architecture_of, family_of
from checkpoint.calibration import FILE_NAME, Ranges, read_calibration
from checkpoint.errors import CheckpointError, UnsupportedCheckpoint
from checkpoint.families import Family
from checkpoint.find import FoundModel
from checkpoint.json_file import read_object
from checkpoint.known_models import KnownModel, known_model, template_of
from checkpoint.limits import token_limit
from checkpoint.modules import Chain, read_chain
from checkpoint.outline import Outline, read_outline
from checkpoint.rerank_template import RerankTemplate
from checkpoint.spec import ModelFiles, ModelSpec, Task, TokenInput
from checkpoint.tokenizer_file import read_tokenizer, token_id
from checkpoint.weights import find_weights

__all__ = ["ReadOptions", "read_model", "read_tokenizer"]


@dataclass(frozen=True)
class ReadOptions:
    """What the operator may decide for a model."""

    max_input_tokens: int | None = None  # None: what the checkpoint says
    matryoshka: tuple[int, ...] = ()  # empty: what the checkpoint says
    token_input: TokenInput = "cl100k_decode"  # noqa: S105  tokens, not a secret
    task: Task | None = None  # None: what the checkpoint says; score makes a causal LM a reranker
    calibration: Path | None = None  # None: the file beside the model, where there is one


@dataclass(frozen=True)
class _Answer:
    """What a model is asked for, and how a pair becomes a text."""

    task: Task
    template: RerankTemplate | None = None
    score_tokens: tuple[int, int] | None = None


def read_model(
    found: FoundModel, options: ReadOptions = ReadOptions()
) -> tuple[ModelSpec, ModelFiles]:
    """Read config.json, modules.json and what they name; open no weights.

    `dtype`, `shard_tokens` and `runtime` keep their defaults: they are the worker's to fill in.
    Raises CheckpointError for whatever could not be served faithfully, naming it.
    """
    chain = read_chain(found.directory)
    directory, config = chain.modules[0].directory, chain.modules[0].config
    where = directory / "config.json"
    known = known_model(found.id)
    family = family_of(where, config, known.family if known else None)
    vocab_size = _positive(where, config, "vocab_size")
    outline = read_outline(chain, _positive(where, config, *family.hidden_size), vocab_size)
    answer = _answer(found, chain, outline, family, options.task)
    limit = token_limit(directory, config, family, options.max_input_tokens)
    known = _same_family(known, family)
    prompts, default_prompt = _prompts(found.directory, answer.task, known)
    spec = ModelSpec(
        id=found.id,
        task=answer.task,
        family=family.name,
        dim=outline.dim,
        max_tokens=limit.tokens,
        max_tokens_source=limit.source,
        vocab_size=vocab_size,
        tokenizer_sha256=hashlib.sha256(read_tokenizer(directory)).hexdigest(),
        revision=found.revision,
        aliases=found.aliases,
        matryoshka=_matryoshka(options, config, known, outline.dim),
        pooling=outline.pooling,
        normalizes=outline.normalizes,
        include_prompt=outline.include_prompt,
        quantizer=outline.quantizer,
        calibration=_calibration(found.directory, options.calibration, outline),
        prompts=prompts,
        default_prompt=default_prompt,
        template=answer.template.text if answer.template else None,
        instruction=answer.template.instruction if answer.template else None,
        score_tokens=answer.score_tokens,
        token_input=options.token_input,
    )
    return spec, ModelFiles(directory, config, chain.modules, _weights(chain))


def _weights(chain: Chain) -> tuple[Path, ...]:
    """The Transformer's. Missing ones of other modules are known before anything is loaded."""
    for module in chain.modules:
        if module.kind in ("Dense", "LayerNorm"):
            find_weights(module.directory)
    return find_weights(chain.modules[0].directory)


def _positive(where: Path, config: Mapping[str, Any], *keys: str) -> int:
    key = next((key for key in keys if key in config), keys[0])
    value = config.get(key)
    if type(value) is not int or value < 1:
        raise UnsupportedCheckpoint(f"{where}: {key} is {value!r}")
    return value


def _answer(
    found: FoundModel, chain: Chain, outline: Outline, family: Family, task: Task | None
) -> _Answer:
    """Raises UnsupportedCheckpoint where architecture, modules and the operator do not agree."""
    where, config = chain.modules[0].directory / "config.json", chain.modules[0].config
    architecture = architecture_of(where, config)
    if outline.shape == "alone" and architecture in family.causal_lm:
        answer = _causal_reranker(found, where, family.templates.get(architecture), task)
    elif outline.shape == "logits" and architecture in family.causal_lm:
        template = template_of(found.id)
        if template is None and "message" in (chain.settings.get("modality_config") or {}):
            raise UnsupportedCheckpoint(f"{where}: its prompt is a chat template, which is not run")
        answer = _Answer("score", template, outline.score_tokens)
    elif outline.shape == "alone" and architecture in family.score:
        _check_one_label(where, config)
        answer = _Answer("score", template_of(found.id) if family.causal_lm else None)
    elif outline.shape == "alone":
        raise UnsupportedCheckpoint(
            f"{where}: {architecture} without a modules.json that pools it; how tokens become one "
            "vector is not guessed"
        )
    else:
        _check_head(where, architecture, outline, family)
        answer = _Answer("score" if outline.shape == "scores" else "embed")
    if task not in (None, answer.task):
        raise UnsupportedCheckpoint(f"{where}: a model to {answer.task}, and cannot {task}")
    return answer


def _causal_reranker(
    found: FoundModel, where: Path, template: RerankTemplate | None, task: Task | None
) -> _Answer:
    named = template_of(found.id)
    if named is None and task != "score":
        raise UnsupportedCheckpoint(
            f"{where}: a causal LM without a modules.json that pools it; how tokens become one "
            "vector is not guessed (a reranker is served when its task is said to be score)"
        )
    chosen = named or template
    if chosen is None:
        raise UnsupportedCheckpoint(f"{where}: no template is known for this reranker")
    tokens = (token_id(where.parent, chosen.yes), token_id(where.parent, chosen.no))
    return _Answer("score", chosen, tokens)


def _check_head(where: Path, architecture: str, outline: Outline, family: Family) -> None:
    if architecture in family.score:
        raise UnsupportedCheckpoint(
            f"{where} names {architecture}, a model of scores, but modules.json pools it"
        )
    if outline.shape == "sparse" and architecture not in family.masked_lm:
        raise UnsupportedCheckpoint(
            f"{where}: {architecture} has no logits over its vocabulary for SpladePooling"
        )
    if outline.shape == "logits":
        raise UnsupportedCheckpoint(
            f"{where}: {architecture} has no logits of a next token for LogitScore"
        )


def _check_one_label(where: Path, config: Mapping[str, Any]) -> None:
    # transformers saves num_labels only through id2label, and takes two where neither is there.
    labels = config.get("num_labels", len(config.get("id2label") or (0, 1)))
    if labels != 1:
        raise UnsupportedCheckpoint(f"{where}: {labels} labels; a reranker has one, its score")


def _same_family(known: KnownModel | None, family: Family) -> KnownModel | None:
    """A directory may carry the name of a model that it does not hold."""
    return known if known is not None and known.family == family.name else None


def _prompts(
    directory: Path, task: Task, known: KnownModel | None
) -> tuple[Mapping[str, str], str | None]:
    """The checkpoint's prompts, or the built-in ones of a known model that came without."""
    path = directory / "config_sentence_transformers.json"
    config = read_object(path) if path.is_file() else {}
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise UnsupportedCheckpoint(f"{path}: prompts are not a mapping of names to texts")
    default = config.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise UnsupportedCheckpoint(f"{path}: default_prompt_name {default!r} is not in prompts")
    if default is not None and task == "score" and prompts[default]:
        raise UnsupportedCheckpoint(f"{path}: a default prompt of pairs is not supported")
    # sentence-transformers writes empty ones of its own accord.
    if not any(prompts.values()) and known is not None and known.prompts:
        prompts = known.prompts
    return prompts, default


def _matryoshka(
    options: ReadOptions, config: Mapping[str, Any], known: KnownModel | None, dim: int
) -> tuple[int, ...]:
    sizes: Sequence[int] = options.matryoshka or config.get("matryoshka_dimensions") or ()
    if not sizes and known is not None:
        sizes = [size for size in known.matryoshka if size <= dim]
    for size in sizes:
        if type(size) is not int or not 1 <= size <= dim:
            raise CheckpointError(f"matryoshka size {size!r} is not within 1 and {dim}")
    return tuple(sorted(set(sizes), reverse=True))


def _calibration(directory: Path, given: Path | None, outline: Outline) -> Ranges | None:
    path = given or directory / FILE_NAME
    if given is None and not path.is_file():
        return None
    if outline.shape != "vectors":
        raise CheckpointError(f"{path}: only vectors have ranges to calibrate")
    return read_calibration(path, outline.dim)
