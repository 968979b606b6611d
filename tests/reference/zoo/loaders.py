"""Vectors and scores of a checkpoint, by transformers and sentence-transformers."""

from inspect import signature
from pathlib import Path
from typing import Any

import torch
from reference import sharp_inputs
from reference.zoo import loaded
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.inputs import Inputs
from reference.zoo.loaded import EAGER, Features, Loaded
from reference.zoo.reranker import prompt
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

OPTIONS: dict[str, Any] = {"device": "cpu", "local_files_only": True, "model_kwargs": EAGER}


def vectors(checkpoint: Checkpoint, directory: Path) -> Loaded:
    model = SentenceTransformer(str(directory), **OPTIONS).eval()
    asked = checkpoint.prompts.get(checkpoint.excludes_prompt or "", "")
    prompt_tokens = model.preprocess([""], prompt=asked)["prompt_length"] if asked else 0

    def encode(text: str) -> list[int]:
        if not (asked + text or model.tokenizer("")["input_ids"]):
            return []
        features = model.preprocess([text], prompt=asked or None)
        return features["input_ids"][0].tolist()

    def run(features: Features) -> torch.Tensor:
        return model(features | {"prompt_length": prompt_tokens})["sentence_embedding"]

    config = model[0].auto_model.config
    return Loaded(lambda: loaded.texts(encode), run, config, prompt_tokens)


def scores(checkpoint: Checkpoint, directory: Path) -> Loaded:
    model = AutoModelForSequenceClassification.from_pretrained(directory, **EAGER).eval()
    known = signature(model.forward).parameters
    tokenizer = AutoTokenizer.from_pretrained(directory)

    def run(features: Features) -> torch.Tensor:
        taken = {name: value for name, value in features.items() if name in known}
        return model(**taken).logits

    return Loaded(lambda: loaded.pairs(tokenizer, checkpoint.max_tokens), run, model.config)


def module_scores(checkpoint: Checkpoint, directory: Path) -> Loaded:
    model = CrossEncoder(str(directory), **OPTIONS).eval()

    def run(features: Features) -> torch.Tensor:
        return model(features)["scores"]

    def encode() -> Inputs:
        return loaded.pairs(model.tokenizer, checkpoint.max_tokens)

    return Loaded(encode, run, model[0].auto_model.config)


def yes_no(checkpoint: Checkpoint, directory: Path) -> Loaded:
    """The logit of "yes" less that of "no", of the last token."""
    model = AutoModelForCausalLM.from_pretrained(directory, **EAGER).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    yes, no = tokenizer.convert_tokens_to_ids(["yes", "no"])

    def run(features: Features) -> torch.Tensor:
        taken = {name: features[name] for name in ("input_ids", "attention_mask")}
        logits = loaded.last_rows(model(**taken).logits, features)
        return logits[:, yes : yes + 1] - logits[:, no : no + 1]

    def encode() -> Inputs:
        queries = sharp_inputs.flat(sharp_inputs.pairs())
        ids = [prompt(tokenizer, query, text, checkpoint.max_tokens) for query, text in queries]
        return Inputs(ids, [[0] * len(row) for row in ids])

    return Loaded(encode, run, model.config)


def logit_score(_: Checkpoint, directory: Path) -> Loaded:
    """As `yes_no`, by sentence-transformers' module; it reads the last column of a batch.

    No pairs: its prompt is a chat template.
    """
    model = CrossEncoder(str(directory), **OPTIONS).eval()

    def run(features: Features) -> torch.Tensor:
        shift = features["attention_mask"].shape[1] - features["attention_mask"].sum(1)
        padded_left = {
            name: torch.stack(
                [row.roll(int(by)) for row, by in zip(features[name], shift, strict=True)]
            )
            for name in ("input_ids", "attention_mask")
        }
        return model(padded_left)["scores"]

    return Loaded(lambda: Inputs([], []), run, model[0].auto_model.config)
