"""The files of an embedder and of a reranker, as a checkpoint on disk has them; no real weights."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from checkpoint.families import Family
from checkpoint.spec import ModelFiles, ModelSpec

Read = Callable[..., tuple[ModelSpec, ModelFiles]]

BERT: Mapping[str, Any] = {
    "architectures": ["BertModel"],
    "hidden_size": 32,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
XLM_ROBERTA: Mapping[str, Any] = {
    **BERT,
    "architectures": ["XLMRobertaModel"],
    "max_position_embeddings": 66,
    "pad_token_id": 1,
}
CROSS_ENCODER: Mapping[str, Any] = {
    **BERT,
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "LABEL_0"},
}


def own_config(family: Family, architecture: str) -> dict[str, Any]:
    """config.json of an architecture, with the sizes of `BERT` under the family's own keys."""
    return {
        "architectures": [architecture],
        family.hidden_size[-1]: 32,
        family.positions[0]: 64,
        "vocab_size": 100,
        "pad_token_id": 0,
    }


def module(kind: str, path: str = "") -> dict[str, str]:
    return {"path": path, "type": f"sentence_transformers.models.{kind}"}


TRANSFORMER = module("Transformer")
POOLING = module("Pooling", "1_Pooling")
NORMALIZE = module("Normalize", "2_Normalize")

EMBEDDER: Mapping[str, Any] = {
    "config.json": BERT,
    "modules.json": [TRANSFORMER, POOLING],
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
    "tokenizer.json": {},
    "model.safetensors": b"weights",
}
RERANKER: Mapping[str, Any] = {
    "config.json": CROSS_ENCODER,
    "tokenizer.json": {},
    "model.safetensors": b"weights",
}


def write_files(directory: Path, files: Mapping[str, Any]) -> None:
    """Bytes as they are, None not at all, all else as JSON."""
    for path, content in files.items():
        if content is None:
            continue
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
