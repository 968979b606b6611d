"""A checkpoint of the zoo: a body of some family, the modules after it, and what it is asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reference.mutants import Mutants
from reference.sharp import write_json
from reference.sharp_families import MAX_TOKENS, Backbone, Parameters, Tensors
from reference.zoo.modules import Module, normalize, write_modules
from safetensors.numpy import save_file
from tokenizers import Tokenizer, processors

Answer = Literal[
    "vectors",  # sentence-transformers' embedding
    "scores",  # transformers' *ForSequenceClassification
    "module_scores",  # sentence-transformers' modular cross-encoder
    "yes_no",  # a causal LM by its logits of two words
    "logit_score",  # the same, named in modules.json
    "tokens",  # a vector a token (ColBERT)
    "multi_vectors",  # the same by bge-m3's own head
    "sparse",  # a weight for each id of the vocabulary (SPLADE)
    "lexical",  # the same by bge-m3's own head
    "spans",  # a vector a chunk of the sequence
]
Config = dict[str, Any]


def unchanged(config: Config) -> Config:
    return config


@dataclass(frozen=True)
class Checkpoint:
    """Everything but the parameters, which the checkpoint's name determines."""

    body: Callable[[Parameters], Backbone]
    modules: Sequence[Module] = ()  # none: as transformers saves it
    answer: Answer = "vectors"
    mutants: Mutants = field(default_factory=dict)
    lengths: Sequence[int] = range(1, MAX_TOKENS + 1)  # of the bare ids that it is asked
    max_tokens: int = MAX_TOKENS
    prompts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # beside them
    excludes_prompt: str | None = None  # the name of the prompt of its texts, if not pooled
    also_writes: Callable[[Parameters, Path], None] | None = None  # after everything else
    # config.json under which transformers runs it, where it lacks the class that is named
    in_transformers: Callable[[Config], Config] = unchanged
    shards: int = 1  # files of the weights
    ends_texts_with: str | None = None  # what tokenizer_config.json, but not tokenizer.json, asks

    @property
    def unit_rows(self) -> bool:
        if self.answer == "vectors":
            return normalize in self.modules
        return self.answer in ("tokens", "multi_vectors")

    @property
    def tolerance(self) -> float:
        """Of a value that is compared with the reference: those of unit rows are small."""
        return 2e-5 if self.unit_rows else 1e-4

    @property
    def asks_pairs(self) -> bool:
        return self.answer in ("scores", "yes_no", "module_scores", "logit_score")


def write(name: str, checkpoint: Checkpoint, directory: Path) -> None:
    """Write the files that transformers, or sentence-transformers, would save."""
    parameters = Parameters(name)
    body = checkpoint.body(parameters)
    directory.mkdir(parents=True, exist_ok=True)
    _write_weights(directory, body.tensors, checkpoint.shards)
    body.tokenizer.save(str(directory / "tokenizer.json"))
    write_json(directory / "config.json", body.config)
    write_json(directory / "tokenizer_config.json", body.tokenizer_config)
    if checkpoint.modules:
        write_modules(checkpoint.modules, parameters, directory)
    if checkpoint.prompts or checkpoint.settings:
        write_json(
            directory / "config_sentence_transformers.json",
            {
                "prompts": dict(checkpoint.prompts),
                "default_prompt_name": None,
                "similarity_fn_name": "cosine",
                **checkpoint.settings,
            },
        )
    if checkpoint.also_writes:
        checkpoint.also_writes(parameters, directory)


def write_for_transformers(checkpoint: Checkpoint, directory: Path) -> None:
    """Change a written checkpoint into one that transformers runs without the model's own code."""
    config = json.loads((directory / "config.json").read_text())
    config.pop("auto_map", None)
    write_json(directory / "config.json", checkpoint.in_transformers(config))
    if checkpoint.ends_texts_with:
        _append(checkpoint.ends_texts_with, directory / "tokenizer.json")
    modules = directory / "modules.json"
    if modules.exists():
        entries = json.loads(modules.read_text())
        known = [entry for entry in entries if entry["type"].startswith(_LIBRARIES)]
        write_json(modules, known)


def _append(token: str, path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {token}", special_tokens=[(token, tokenizer.token_to_id(token))]
    )
    tokenizer.save(str(path))


_LIBRARIES = ("sentence_transformers.", "pylate.")


def _write_weights(directory: Path, tensors: Tensors, shards: int) -> None:
    metadata = {"format": "pt"}
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata=metadata)
        return
    names = sorted(tensors)
    files = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        chosen = names[shard::shards]
        save_file({name: tensors[name] for name in chosen}, directory / file, metadata=metadata)
        files |= dict.fromkeys(chosen, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    write_json(
        directory / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": files},
    )
