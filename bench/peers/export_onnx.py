"""Export a mean-pooling sentence-transformers model to ONNX: token ids in, unit vectors out.

.peers/bin/python -P bench/peers/export_onnx.py MODEL_DIRECTORY OUT_DIRECTORY

Runs in the peers' environment; the tokenizer's files go along. Of the exports that torch makes, the
one traced from eager attention is the fastest in onnxruntime: its patterns are the ones that get
fused into Attention and SkipLayerNormalization.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModel

_OPSET = 17


class _UnitVectors(torch.nn.Module):
    """Pooling inside the graph, so that no hidden state leaves onnxruntime."""

    def __init__(self, body: torch.nn.Module) -> None:
        super().__init__()
        self._body = body

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        body = self._body(input_ids=input_ids, attention_mask=attention_mask)
        hidden = body.last_hidden_state  # [B, T, D]
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)  # [B, T, 1]
        pooled = (hidden * mask).sum(1) / mask.sum(1)  # [B, D]
        return torch.nn.functional.normalize(pooled, dim=-1)


def main(model_dir: Path, out_dir: Path) -> None:
    body = AutoModel.from_pretrained(
        model_dir, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    )
    out_dir.mkdir(exist_ok=True)
    input_ids = torch.arange(1000, 1032).reshape(2, 16)
    torch.onnx.export(
        _UnitVectors(body).eval(),
        (input_ids, torch.ones_like(input_ids)),
        str(out_dir / "model.onnx"),
        input_names=["input_ids", "attention_mask"],
        output_names=["vectors"],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "tokens"},
            "attention_mask": {0: "batch", 1: "tokens"},
            "vectors": {0: "batch"},
        },
        opset_version=_OPSET,
        dynamo=False,
    )
    for name in ("tokenizer.json", "sentence_bert_config.json"):
        shutil.copyfile(model_dir / name, out_dir / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
