"""sentence-transformers on the same device, with the same weights and the same ids."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.gpu.closeness import Vectors
from bench.gpu.loads import Ids
from bench.gpu.shapes import ModelShape

# Texts, and how many at a time -> a vector for each, on the host
Embed = Callable[[Sequence[Ids], int], Vectors]
LoadPeer = Callable[[Path, ModelShape, torch.device, torch.dtype], Embed]


def load_sentence_transformers(
    directory: Path, shape: ModelShape, place: torch.device, dtype: torch.dtype
) -> Embed:
    """Its own model of the checkpoint. Raises ImportError where it is not installed."""
    from sentence_transformers import SentenceTransformer

    transformers = version("transformers")
    if shape.architecture == "qwen3" and not shape.causal and int(transformers.split(".")[0]) < 5:
        raise NotImplementedError(f"transformers {transformers} makes causal masks alone for Qwen3")
    model = SentenceTransformer(
        str(directory),
        device=str(place),
        local_files_only=True,
        model_kwargs={"dtype": dtype, "attn_implementation": "sdpa"},
    )
    model.eval()
    found = next(model.parameters()).dtype
    if found != dtype:
        raise TypeError(f"it computes in {found}, not in {dtype}")
    for module in model.modules():
        # is_causal of config.json makes the masks; of a text without padding there is none, and
        # this alone decides.
        if hasattr(module, "is_causal"):
            module.is_causal = shape.causal
    padding = int(getattr(model[0].auto_model.config, "pad_token_id", None) or 0)

    def embed(texts: Sequence[Ids], size: int) -> Vectors:
        """As `encode` does behind its tokenizer: sorted by length, padded, the longest first."""
        order = sorted(range(len(texts)), key=lambda place: -texts[place].size)
        rows = []
        with torch.inference_mode():
            for start in range(0, len(order), size):
                features = _padded([texts[index] for index in order[start : start + size]], padding)
                moved = {name: tensor.to(place) for name, tensor in features.items()}
                rows.append(model(moved)["sentence_embedding"])
            found = torch.cat(rows).float().cpu().numpy()
        vectors: Vectors = np.empty_like(found)
        vectors[order] = found
        return vectors

    return embed


def _padded(texts: Sequence[Ids], padding: int) -> dict[str, Tensor]:
    """[texts, the longest] both."""
    lengths = torch.tensor([text.size for text in texts])
    ids = torch.full((len(texts), int(lengths.max())), padding, dtype=torch.int64)
    for row, text in zip(ids, texts, strict=True):
        row[: text.size] = torch.from_numpy(text)
    seen = torch.arange(ids.size(1)) < lengths[:, None]
    return {"input_ids": ids, "attention_mask": seen.long()}
