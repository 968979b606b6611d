"""What a chain of modules amounts to: vectors, rows a token, a sparse vector, or a score."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from checkpoint.errors import UnsupportedCheckpoint
from checkpoint.modules import Chain
from checkpoint.spec import Module, Pooling, Quantizer

Shape = Literal["alone", "vectors", "tokens", "sparse", "scores", "logits"]

_TOKENS, _ROWS, _SCORES = "token_embeddings", "sentence_embedding", "scores"  # names of features

# What may follow the Transformer, by what it is loaded for. A module that works on tokens, or ends
# in a score, is written so.
_SHAPES: tuple[tuple[str, str, Shape], ...] = (
    ("feature-extraction", r"Pooling( Dense| LayerNorm| Normalize)* Dense:scores", "scores"),
    (
        "feature-extraction",
        r"Pooling( Dense| LayerNorm| Normalize)*( FlexibleQuantizer)?",
        "vectors",
    ),
    (
        "feature-extraction",
        r"(?=.*:tokens|.*MultiVectorMask)(Dense:tokens ?)*(MultiVectorMask ?)?(Normalize:tokens)?",
        "tokens",
    ),
    ("fill-mask", r"SpladePooling", "sparse"),
    ("sequence-classification", r"", "alone"),
    ("feature-extraction", r"", "alone"),
    ("text-generation", r"LogitScore", "logits"),
)

# The names of a Pooling's config, old (one boolean each) and new (the value of pooling_mode).
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
POOLINGS: Mapping[str, Pooling] = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last_token",
}


@dataclass(frozen=True)
class Outline:
    shape: Shape
    dim: int  # width of a row before the gateway truncates it
    pooling: Pooling | None = None
    include_prompt: bool = True
    normalizes: bool = False
    quantizer: Quantizer | None = None
    score_tokens: tuple[int, int] | None = None


def read_outline(chain: Chain, hidden_size: int, vocab_size: int) -> Outline:
    """Raises UnsupportedCheckpoint for modules, or an order of them, that are not done here."""
    shape = _shape(chain)
    after = chain.modules[1:]
    if shape == "alone":
        return Outline(shape, dim=1)
    if shape == "sparse":
        return Outline(shape, dim=vocab_size, pooling="sparse")
    if shape == "logits":
        return Outline(shape, dim=1, score_tokens=_score_tokens(after[0], vocab_size))
    dim = _check_widths(after, hidden_size)
    pooled = shape != "tokens"
    return Outline(
        shape,
        dim=dim,
        pooling=_pooling(after[0], hidden_size) if pooled else "tokens",
        include_prompt=after[0].config.get("include_prompt", True) if pooled else True,
        normalizes=after[-1].kind == "Normalize",
        quantizer="tanh_int8" if after[-1].kind == "FlexibleQuantizer" else None,
    )


def _shape(chain: Chain) -> Shape:
    names = " ".join(_name(module) for module in chain.modules[1:])
    task = chain.transformer_task
    where = chain.modules[0].directory / "modules.json"
    if task is None:
        return "alone"
    if task not in {known for known, _, _ in _SHAPES}:
        raise UnsupportedCheckpoint(f"{where}: a Transformer for {task!r} is not supported")
    _check_output(where, chain)
    for known, pattern, shape in _SHAPES:
        if task == known and re.fullmatch(pattern, names):
            return shape
    raise UnsupportedCheckpoint(
        f"{where}: modules {names or 'of no kind'!r} after a Transformer for {task} are not "
        "supported in this order; how tokens become one vector is not guessed"
    )


def _name(module: Module) -> str:
    """The kind, with what it works on where that is not the pooled row."""
    reads = module.config.get("module_input_name")
    if module.kind in ("Dense", "Normalize"):
        if reads == _TOKENS:
            return f"{module.kind}:tokens"
        if reads not in (None, _ROWS):
            return f"{module.kind}:{reads}"
    writes = module.config.get("module_output_name") or reads
    if module.kind == "Dense" and writes not in (None, _ROWS):
        return f"Dense:{writes}"
    return module.kind


def _check_output(where: Path, chain: Chain) -> None:
    """The last hidden states, or the logits, not what some other method of the model gives."""
    text = (chain.settings.get("modality_config") or {}).get("text") or {}
    expected = {"method": "forward", "method_output_name": "logits"}
    if chain.transformer_task == "feature-extraction":
        expected["method_output_name"] = "last_hidden_state"
    for key, value in expected.items():
        if text.get(key, value) != value:
            raise UnsupportedCheckpoint(
                f"{where}: the Transformer's {key} {text[key]!r} is not known"
            )


def _check_widths(modules: Sequence[Module], width: int) -> int:
    """The width of a row once every module has run. Checks that each fits the one before."""
    for module in modules:
        where = module.directory / "config.json"
        if module.kind == "LayerNorm" and module.config.get("dimension") != width:
            raise UnsupportedCheckpoint(f"{where}: dimension is not {width}")
        if module.kind != "Dense":
            continue
        if module.config.get("in_features") != width:
            raise UnsupportedCheckpoint(f"{where}: in_features is not {width}")
        out_features = module.config.get("out_features")
        if type(out_features) is not int or out_features < 1:
            raise UnsupportedCheckpoint(f"{where}: out_features is not a positive integer")
        width = out_features
        if module.config.get("module_output_name") == _SCORES and width != 1:
            raise UnsupportedCheckpoint(f"{where}: {width} labels; a reranker has one, its score")
    return width


def _pooling(module: Module, hidden_size: int) -> Pooling:
    config, where = module.config, module.directory / "config.json"
    width = config.get("embedding_dimension", config.get("word_embedding_dimension", hidden_size))
    if width != hidden_size:
        raise UnsupportedCheckpoint(f"{where}: dimension {width}, but the model's is {hidden_size}")
    if type(config.get("include_prompt", True)) is not bool:
        raise UnsupportedCheckpoint(f"{where}: include_prompt is neither true nor false")
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


def _score_tokens(module: Module, vocab_size: int) -> tuple[int, int]:
    yes, no = module.config.get("true_token_id"), module.config.get("false_token_id")
    if (
        isinstance(yes, int)
        and isinstance(no, int)
        and 0 <= min(yes, no) <= max(yes, no) < vocab_size
    ):
        return yes, no
    raise UnsupportedCheckpoint(
        f"{module.directory / 'config.json'}: a score is the difference of the logits of two "
        f"tokens, not of {yes!r} and {no!r}"
    )
