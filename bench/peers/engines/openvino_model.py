"""OpenVINO, compiled for latency with a thread a core, on what `prepare` exported."""

import os
from pathlib import Path

import numpy as np
import openvino
from numpy.typing import NDArray
from padding import Embed, Ids, padded

LIBRARIES = ("openvino", "tokenizers")
_PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


def load(model_dir: str, exports: str, dtype: str) -> Embed:
    compiled = openvino.Core().compile_model(
        Path(exports) / "model.onnx",
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": _PRECISIONS[dtype],
            "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
            "PERFORMANCE_HINT": "LATENCY",
        },
    )
    request = compiled.create_infer_request()

    def run(input_ids: Ids, mask: Ids) -> NDArray[np.float32]:
        inputs = {"input_ids": input_ids, "attention_mask": mask}
        vectors = request.infer(inputs, share_inputs=True, share_outputs=True)[0]
        return np.array(vectors)  # the request's own is overwritten by the next

    return padded(Path(model_dir), run)
