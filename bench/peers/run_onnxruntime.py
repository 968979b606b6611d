"""The peer onnxruntime: all of its graph optimisations, texts sorted by length and padded.

Its directory is what export_onnx.py writes.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

LIBRARIES = ("onnxruntime", "tokenizers")


def load(model_dir: str, dtype: str) -> Callable[[list[str], int], NDArray[np.float32]]:
    if dtype != "float32":
        raise ValueError(f"the export is float32, not {dtype}")
    tokenizer = _tokenizer(Path(model_dir))
    session = onnxruntime.InferenceSession(
        Path(model_dir) / "model.onnx", providers=["CPUExecutionProvider"]
    )

    def embed(texts: list[str], size: int) -> NDArray[np.float32]:
        encoded = tokenizer.encode_batch_fast(texts)
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i].ids))
        parts = []
        for start in range(0, len(texts), size):
            rows = [encoded[i].ids for i in order[start : start + size]]
            lengths = np.array([len(row) for row in rows])
            mask = np.arange(lengths.max()) < lengths[:, None]  # [B, T]
            input_ids = np.zeros(mask.shape, np.int64)
            input_ids[mask] = np.concatenate(rows)
            inputs = {"input_ids": input_ids, "attention_mask": mask.astype(np.int64)}
            parts.append(session.run(None, inputs)[0])
        vectors = np.empty((len(texts), parts[0].shape[1]), np.float32)
        vectors[order] = np.concatenate(parts)
        return vectors

    return embed


def _tokenizer(model_dir: Path) -> Tokenizer:
    """Truncating where sentence-transformers does; padding is done here, batch by batch."""
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    config = json.loads((model_dir / "sentence_bert_config.json").read_text())
    tokenizer.enable_truncation(config["max_seq_length"])
    tokenizer.no_padding()
    return tokenizer
