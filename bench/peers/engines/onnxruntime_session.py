"""onnxruntime with all of its graph optimisations, on what `prepare` exported."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from padding import Batch, Embed, padded

LIBRARIES = ("onnxruntime", "tokenizers")
_FILES = {"float32": "model.onnx", "int8": "int8.onnx"}


def load(model_dir: str, exports: str, dtype: str) -> Embed:
    session = onnxruntime.InferenceSession(
        Path(exports) / _FILES[dtype], providers=["CPUExecutionProvider"]
    )

    def run(batches: Sequence[Batch]) -> Sequence[NDArray[np.float32]]:
        return [
            session.run(None, {"input_ids": input_ids, "attention_mask": mask})[0]
            for input_ids, mask in batches
        ]

    return padded(Path(model_dir), run)
