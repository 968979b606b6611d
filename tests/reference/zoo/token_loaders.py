"""Answers per token, per span, and per id of the vocabulary."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from reference.zoo import inputs, loaded
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.inputs import Inputs
from reference.zoo.loaded import EAGER, Features, Loaded
from reference.zoo.loaders import OPTIONS
from sentence_transformers import MultiVectorEncoder, SparseEncoder
from torch.nn import functional
from transformers import AutoConfig, AutoModel, AutoTokenizer

EVERY = 4  # of the texts, where each token has a row

Run = Callable[[Features], torch.Tensor]


def tokens(checkpoint: Checkpoint, directory: Path) -> Loaded:
    """Of every token [T, D], special ones included; what a search leaves out is no part of it."""
    model = MultiVectorEncoder(str(directory), **OPTIONS).eval()

    def run(features: Features) -> torch.Tensor:
        states = model(dict(features))["token_embeddings"]
        return loaded.token_rows(states, features)

    return _loaded(checkpoint, directory, run)


def sparse(checkpoint: Checkpoint, directory: Path) -> Loaded:
    """SPLADE's weight of each id of the vocabulary [B, V]."""
    model = SparseEncoder(str(directory), **OPTIONS).eval()

    def run(features: Features) -> torch.Tensor:
        return model(features)["sentence_embedding"]

    return _loaded(checkpoint, directory, run)


def lexical(checkpoint: Checkpoint, directory: Path) -> Loaded:
    """bge-m3's: the largest weight that a token with the id was given [B, V]."""
    model, config = _bare(directory)
    head = torch.load(directory / "sparse_linear.pt", weights_only=True)
    unused = [config.bos_token_id, config.eos_token_id, config.pad_token_id, 3]  # 3: <unk>

    def run(features: Features) -> torch.Tensor:
        states = model(features)
        weights = functional.linear(states, head["weight"], head["bias"]).relu().squeeze(-1)
        weights = weights * features["attention_mask"]
        rows = weights.new_zeros(len(weights), config.vocab_size)
        rows.scatter_reduce_(1, features["input_ids"], weights, "amax")
        rows[:, unused] = 0
        return rows

    return _loaded(checkpoint, directory, run)


def multi_vectors(checkpoint: Checkpoint, directory: Path) -> Loaded:
    """bge-m3's: every token but the first, of unit length [T - B, D]."""
    model, _ = _bare(directory)
    head = torch.load(directory / "colbert_linear.pt", weights_only=True)

    def run(features: Features) -> torch.Tensor:
        states = functional.linear(model(features), head["weight"], head["bias"])
        rest = {"attention_mask": features["attention_mask"][:, 1:]}
        return functional.normalize(loaded.token_rows(states[:, 1:], rest), dim=-1)

    return _loaded(checkpoint, directory, run)


def spans(checkpoint: Checkpoint, directory: Path) -> Loaded:
    """The mean of the tokens of each span [S, D]."""
    model, _ = _bare(directory)

    def run(features: Features) -> torch.Tensor:
        states = model(features)
        means = [
            states[sequence, start:end].mean(0)
            for sequence, start, end in inputs.spans(loaded.lengths(features)).tolist()
        ]
        return torch.stack(means)

    return _loaded(checkpoint, directory, run)


def _bare(directory: Path) -> tuple[Run, Any]:
    model = AutoModel.from_pretrained(directory, **EAGER).eval()

    def states(features: Features) -> torch.Tensor:
        taken = {name: features[name] for name in ("input_ids", "attention_mask")}
        return model(**taken).last_hidden_state

    return states, model.config


def _loaded(checkpoint: Checkpoint, directory: Path, run: Run) -> Loaded:
    tokenizer = AutoTokenizer.from_pretrained(directory)

    def encode(text: str) -> list[int]:
        return tokenizer(text, truncation=True, max_length=checkpoint.max_tokens)["input_ids"]

    def encode_texts() -> Inputs:
        texts = loaded.texts(encode)
        some = slice(None, None, EVERY if checkpoint.unit_rows else 1)
        return Inputs(texts.input_ids[some], texts.type_ids[some])

    config = AutoConfig.from_pretrained(directory)
    return Loaded(encode_texts, run, config)
