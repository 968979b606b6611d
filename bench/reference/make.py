"""Write a reference file: what sentence-transformers makes of some texts in float32.

    .peers/sentence-transformers/bin/python -m bench.reference.make DIRECTORY OUT.npz NAME [PROMPT]

Run in a peer's environment from the root of the checkout. An .npz of `vectors` float32 [N, D] and
`header`, JSON as uint8: `about`, `texts` and `versions`.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from bench.texts import Texts

_LENGTHS_TOKENS = (3, 8, 16, 17, 31, 32, 33, 64, 81, 100, 128, 129, 200, 255, 256)
_SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "What is the capital of France?",
    "Paris is the capital and largest city of France.",
    "naïve café, Ångström, ½ cup of H₂O; “quoted” – and so on…",
    "Где находится ближайшая станция метро?",
    "人工知能は東京大学で研究されています。",
    "def f(x: int) -> int:\n    return x ** 2",
    "https://example.com/path?query=embedding&lang=en#top",
)


def main(directory: str, out: str, name: str, prompt: str = "") -> None:
    words = Texts("reference")
    texts = [*_SENTENCES, *(words.of(tokens) for tokens in _LENGTHS_TOKENS)]
    texts = [prompt + text for text in texts]
    model = SentenceTransformer(directory, device="cpu", local_files_only=True)
    vectors = model.float().encode(texts, batch_size=1, convert_to_numpy=True)
    libraries = ("sentence-transformers", "transformers", "tokenizers", "torch", "numpy")
    header = {
        "about": f"{name} by sentence-transformers {version('sentence-transformers')} in float32",
        "texts": texts,
        "versions": {library: version(library) for library in libraries},
    }
    np.savez_compressed(
        Path(out),
        allow_pickle=False,
        header=np.frombuffer(json.dumps(header).encode(), np.uint8),
        vectors=vectors.astype(np.float32),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
