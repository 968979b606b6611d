"""The ids that sentencepiece gives, its model rebuilt from a Unigram tokenizer.json.

XLM-R counts from 1 what sentencepiece counts from 0, and puts special tokens of its own before.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2

BEFORE = ("<s>", "<pad>", "</s>", "<unk>")  # XLM-R's first pieces


def encode_with_sentencepiece(tokenizer_json: Path, texts: Sequence[str]) -> list[list[int]]:
    """`<s> a </s>` for each text."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=_model(tokenizer_json))
    unk = BEFORE.index("<unk>")
    rows = []
    for row in processor.encode(list(texts), out_type=int):
        ids = [unk if piece == processor.unk_id() else piece + 1 for piece in row]
        rows.append([0, *ids, 2])
    return rows


def _model(tokenizer_json: Path) -> bytes:
    tokenizer: dict[str, Any] = json.loads(tokenizer_json.read_text())
    kinds = model_pb2.ModelProto.SentencePiece
    model = model_pb2.ModelProto()
    for piece, kind in (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    for piece, score in tokenizer["model"]["vocab"][len(BEFORE) : -1]:  # without <mask>
        model.pieces.add(piece=piece, score=score, type=kinds.NORMAL)
    model.trainer_spec.model_type = model_pb2.TrainerSpec.UNIGRAM
    model.trainer_spec.vocab_size = len(model.pieces)
    model.normalizer_spec.precompiled_charsmap = base64.b64decode(_charsmap(tokenizer))
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = True
    model.normalizer_spec.escape_whitespaces = True
    data: bytes = model.SerializeToString()
    return data


def _charsmap(tokenizer: dict[str, Any]) -> str:
    normalizer = tokenizer["normalizer"]
    steps = normalizer.get("normalizers", [normalizer])
    return str(
        next(step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled")
    )
