"""Write data/e5.npz and data/splade.npz: what sentence-transformers makes of real weights.

    make test-data
    pip install sentence-transformers==6.2.0 transformers==5.24.0
    PYTHONPATH=tests python tests/reference/make_real.py

e5: `input_ids` int32 [T], `lengths` int32 [B], `vectors` float32 [B, 384] of `real_texts.e5`.
splade: `input_ids`, `lengths`, and the weights above 0 of `real_texts.splade`, one text after
another: `row_offsets` int32 [B + 1], `indices` int32 [N], `weights` float32 [N].
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from reference import archive, package_texts, real_texts
from reference.rebuild_e5 import write_e5
from reference.rebuild_splade import write_splade
from reference.zoo.loaders import OPTIONS
from sentence_transformers import SentenceTransformer, SparseEncoder


@torch.inference_mode()
def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "multilingual-e5-small"
        write_e5(directory)
        model = SentenceTransformer(str(directory), **OPTIONS)
        texts = real_texts.e5()
        ids, lengths = archive.pack([_ids(model, text) for text in texts])
        vectors = model.encode(texts, batch_size=16, convert_to_numpy=True)
        arrays = {"input_ids": ids, "lengths": lengths, "vectors": vectors.astype(np.float32)}
        archive.write("e5.npz", _header(directory), arrays)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "splade-tiny"
        write_splade(directory)
        model = SparseEncoder(str(directory), **OPTIONS)
        texts = real_texts.splade()
        ids, lengths = archive.pack([_ids(model, text) for text in texts])
        rows = [
            model.encode([text], convert_to_sparse_tensor=False)[0].float().numpy()
            for text in texts
        ]
        archive.write(
            "splade.npz",
            _header(directory),
            {"input_ids": ids, "lengths": lengths} | _sparse(rows),
        )


def _ids(model: SentenceTransformer | SparseEncoder, text: str) -> list[int]:
    """Alone, so that no padding is among them."""
    return [int(token) for token in model.preprocess([text])["input_ids"][0]]


def _header(directory: Path) -> dict[str, object]:
    return {
        "weights_sha256": archive.sha256(directory / "model.safetensors"),
        "texts_sha256": package_texts.sha256(),
    }


def _sparse(rows: list[NDArray[np.float32]]) -> dict[str, NDArray[np.generic]]:
    indices = [np.flatnonzero(row).astype(np.int32) for row in rows]
    return {
        "row_offsets": np.cumsum([0, *(chosen.size for chosen in indices)], dtype=np.int32),
        "indices": np.concatenate(indices),
        "weights": np.concatenate([row[at] for row, at in zip(rows, indices, strict=True)]),
    }


if __name__ == "__main__":
    main()
