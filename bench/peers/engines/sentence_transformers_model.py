"""sentence-transformers, as its README uses it: `encode` sorts by length and pads."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

LIBRARIES = ("sentence-transformers", "transformers", "tokenizers", "torch")


def load(
    model_dir: str, exports: str, dtype: str
) -> Callable[[list[str], int], NDArray[np.float32]]:
    model = SentenceTransformer(
        model_dir,
        device="cpu",
        local_files_only=True,
        model_kwargs={"dtype": getattr(torch, dtype)},
    )

    def embed(texts: list[str], size: int) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = (
            model.encode(texts, batch_size=size, convert_to_tensor=True, show_progress_bar=False)
            .float()
            .numpy()
        )
        return vectors

    return embed
