"""Write data/sharp.npz: what transformers and sentence-transformers make of the sharp checkpoints.

    pip install sentence-transformers
    PYTHONPATH=tests python tests/reference/make_sharp.py

Arrays below a checkpoint's name: `texts` (embeddings) or `pairs` (cross-encoders), and `sequences`
(bare ids, both), each with `input_ids` int32 [T], `type_ids` uint8 [T], `lengths` int32 [B] and
`rows` float32 [B, D]. They ran padded, 16 at a time.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from reference import archive, sharp, sharp_inputs
from reference.sharp_families import MAX_TOKENS
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

BATCH = 16
Features = dict[str, torch.Tensor]
Run = Callable[[Features], torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """Sequences before padding."""

    input_ids: list[list[int]]
    type_ids: list[list[int]]


def main() -> None:
    checkpoints, arrays = {}, {}
    with tempfile.TemporaryDirectory() as root:
        for name, recipe in sharp.CHECKPOINTS.items():
            directory = Path(root) / name
            sharp.write_checkpoint(name, directory)
            checkpoints[name] = archive.weights_sha256(directory)
            reference = _scores(directory) if recipe.scores else _vectors(directory)
            arrays |= {f"{name}/{key}": array for key, array in reference.items()}
    archive.write("sharp.npz", {"weights_sha256": checkpoints}, arrays)


@torch.inference_mode()
def _scores(directory: Path) -> dict[str, NDArray[Any]]:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory, dtype=torch.float32)
    model.eval()

    pairs = Inputs([], [])
    for pair in sharp_inputs.flat(sharp_inputs.pairs()):
        # A list: given two strings, transformers drops an empty document and its separator.
        encoded = tokenizer(
            [pair],
            truncation="only_second",
            max_length=MAX_TOKENS,
            return_token_type_ids=True,
        )
        pairs.input_ids.extend(encoded["input_ids"])
        pairs.type_ids.extend(encoded["token_type_ids"])
    types = model.config.type_vocab_size

    def run(features: Features) -> torch.Tensor:
        return model(**features).logits

    pad_id = tokenizer.pad_token_id
    return _rows("pairs", pairs, pad_id, run) | _rows(
        "sequences", _sequences(model.config.vocab_size, types), pad_id, run
    )


@torch.inference_mode()
def _vectors(directory: Path) -> dict[str, NDArray[Any]]:
    model = SentenceTransformer(str(directory), device="cpu", local_files_only=True).float()
    config = model[0].auto_model.config

    texts = Inputs([], [])
    for text in sharp_inputs.texts():
        ids = model.preprocess([text])["input_ids"][0].tolist()
        texts.input_ids.append(ids)
        texts.type_ids.append([0] * len(ids))

    def run(features: Features) -> torch.Tensor:
        return model(features)["sentence_embedding"]

    sequences = _sequences(config.vocab_size, types=1)
    return _rows("texts", texts, config.pad_token_id, run) | _rows(
        "sequences", sequences, config.pad_token_id, run
    )


def _sequences(vocab_size: int, types: int) -> Inputs:
    ids = sharp_inputs.sequences(vocab_size)
    type_ids = sharp_inputs.type_ids(len(sequence) for sequence in ids)
    return Inputs(
        [sequence.tolist() for sequence in ids],
        [(sequence % types).tolist() for sequence in type_ids],
    )


def _rows(key: str, inputs: Inputs, pad_id: int, run: Run) -> dict[str, NDArray[Any]]:
    rows = torch.cat([run(features) for features in _padded(inputs, pad_id)])
    ids, lengths = archive.pack(inputs.input_ids)
    type_ids, _ = archive.pack(inputs.type_ids)
    return {
        f"{key}/input_ids": ids,
        f"{key}/type_ids": type_ids.astype(np.uint8),
        f"{key}/lengths": lengths,
        f"{key}/rows": rows.float().numpy(),
    }


def _padded(inputs: Inputs, pad_id: int) -> Iterator[Features]:
    for start in range(0, len(inputs.input_ids), BATCH):
        chosen = slice(start, start + BATCH)
        yield {
            "input_ids": _pad(inputs.input_ids[chosen], pad_id),
            "token_type_ids": _pad(inputs.type_ids[chosen], 0),
            "attention_mask": _pad([[1] * len(ids) for ids in inputs.input_ids[chosen]], 0),
        }


def _pad(sequences: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    longest = max(len(sequence) for sequence in sequences)
    return torch.tensor([[*s, *[value] * (longest - len(s))] for s in sequences])


if __name__ == "__main__":
    main()
