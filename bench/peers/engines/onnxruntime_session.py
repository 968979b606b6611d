"""onnxruntime with all of its graph optimisations, on what `prepare` exported."""

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from padding import Embed, Ids, padded

LIBRARIES = ("onnxruntime", "tokenizers")
_FILES = {"float32": "model.onnx", "int8": "int8.onnx"}


def load(model_dir: str, exports: str, dtype: str) -> Embed:
    session = onnxruntime.InferenceSession(
        Path(exports) / _FILES[dtype], providers=["CPUExecutionProvider"]
    )

    def run(input_ids: Ids, mask: Ids) -> NDArray[np.float32]:
        inputs = {"input_ids": input_ids, "attention_mask": mask}
        vectors: NDArray[np.float32] = session.run(None, inputs)[0]
        return vectors

    return padded(Path(model_dir), run)
