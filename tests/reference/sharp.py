"""Tiny checkpoints whose every parameter is random and large enough to matter.

Default initialisation hides errors: its attention is uniform and its biases are zero. Here matrices
and biases are N(0, 0.3) and norm weights 1 ± 0.3, so that any detail left out moves the answer.
A checkpoint is one row of `CHECKPOINTS`, its layers one function in `sharp_families.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reference.sharp_families import FAMILIES, HIDDEN, MAX_TOKENS, Parameters, Tensors
from safetensors.numpy import save_file

Pooling = Literal["cls", "mean", "lasttoken"]  # sentence-transformers' words


@dataclass(frozen=True)
class Recipe:
    """Which family, and what follows its last hidden states."""

    family: str
    pooling: Pooling | None = None  # None: a cross-encoder with the family's own head
    dense: bool = False  # a Dense with tanh after pooling
    normalizes: bool = False
    layout: Literal[2, 6] = 2  # the version of sentence-transformers that saved it

    @property
    def scores(self) -> bool:
        return self.pooling is None


CHECKPOINTS: Mapping[str, Recipe] = {
    "bert-scores": Recipe("bert"),
    "bert-cls": Recipe("bert", "cls", normalizes=True),
    "bert-mean-dense": Recipe("bert", "mean", dense=True, normalizes=True),
    "bert-last-token": Recipe("bert", "lasttoken", layout=6),
    "roberta-scores": Recipe("roberta"),
    "xlm-roberta-scores": Recipe("xlm-roberta"),
    "xlm-roberta-cls-dense": Recipe("xlm-roberta", "cls", dense=True, layout=6),
    "xlm-roberta-mean": Recipe("xlm-roberta", "mean", normalizes=True, layout=6),
    "xlm-roberta-last-token": Recipe("xlm-roberta", "lasttoken", normalizes=True),
}


def write_checkpoint(name: str, directory: Path) -> None:
    """Write the files that transformers, or sentence-transformers, would save."""
    recipe = CHECKPOINTS[name]
    parameters = Parameters(name)
    backbone = FAMILIES[recipe.family](parameters, recipe.scores)
    _write_tensors(directory, backbone.tensors)
    backbone.tokenizer.save(str(directory / "tokenizer.json"))
    write_json(directory / "config.json", backbone.config)
    write_json(directory / "tokenizer_config.json", backbone.tokenizer_config)
    if not recipe.scores:
        _write_modules(recipe, parameters, directory)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def _write_tensors(directory: Path, tensors: Tensors) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _write_modules(recipe: Recipe, parameters: Parameters, directory: Path) -> None:
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    write_json(directory / "sentence_bert_config.json", _SENTENCE_BERT_CONFIG[recipe.layout])
    write_json(directory / "1_Pooling/config.json", pooling_config(recipe))
    if recipe.dense:
        modules.append(("Dense", "2_Dense"))
        _write_dense(parameters, directory / "2_Dense")
    if recipe.normalizes:
        modules.append(("Normalize", f"{len(modules)}_Normalize"))
    write_json(
        directory / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": _class_path(recipe, kind)}
            for i, (kind, path) in enumerate(modules)
        ],
    )


def pooling_config(recipe: Recipe) -> dict[str, Any]:
    """1_Pooling/config.json."""
    if recipe.layout == 6:
        return {
            "embedding_dimension": HIDDEN,
            "pooling_mode": recipe.pooling,
            "include_prompt": True,
        }
    return {
        "word_embedding_dimension": HIDDEN,
        "pooling_mode_cls_token": recipe.pooling == "cls",
        "pooling_mode_mean_tokens": recipe.pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_lasttoken": recipe.pooling == "lasttoken",
    }


# From version 6 on, the limit stands in tokenizer_config.json alone.
_SENTENCE_BERT_CONFIG: Mapping[int, Mapping[str, Any]] = {
    2: {"max_seq_length": MAX_TOKENS, "do_lower_case": False},
    6: {
        "transformer_task": "feature-extraction",
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
        "module_output_name": "token_embeddings",
    },
}


def _class_path(recipe: Recipe, kind: str) -> str:
    if recipe.layout == 2:
        return f"sentence_transformers.models.{kind}"
    package = "sentence_transformer" if kind == "Pooling" else "base"
    return f"sentence_transformers.{package}.modules.{kind.lower()}.{kind}"


def _write_dense(parameters: Parameters, directory: Path) -> None:
    outputs = HIDDEN // 2
    _write_tensors(directory, parameters.linear("linear", HIDDEN, outputs))
    write_json(
        directory / "config.json",
        {
            "in_features": HIDDEN,
            "out_features": outputs,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        },
    )
