"""Export a mean-pooling sentence-transformers model to ONNX: token ids in, unit vectors out.

python -P bench/peers/prepare/export_onnx.py MODEL_DIRECTORY OUT.onnx {vectors|hidden}

Runs in the environment of sentence-transformers. `hidden` leaves pooling out, for a server that
pools itself. Of the exports that torch makes, the one traced from eager attention is the fastest in
onnxruntime: its patterns are the ones that get fused into Attention and SkipLayerNormalization.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModel

_OPSET = 17


class _Hidden(torch.nn.Module):
    def __init__(self, body: torch.nn.Module) -> None:
        super().__init__()
        self._body = body

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        body = self._body(input_ids=input_ids, attention_mask=attention_mask)
        hidden: torch.Tensor = body.last_hidden_state  # [B, T, D]
        return hidden


class _UnitVectors(_Hidden):
    """Pooling inside the graph, so that no hidden state leaves onnxruntime."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = super().forward(input_ids, attention_mask)
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)  # [B, T, 1]
        pooled = (hidden * mask).sum(1) / mask.sum(1)  # [B, D]
        return torch.nn.functional.normalize(pooled, dim=-1)


_FORMS = {
    "vectors": (_UnitVectors, "vectors", {0: "batch"}),
    "hidden": (_Hidden, "last_hidden_state", {0: "batch", 1: "tokens"}),
}


def main(model_dir: str, out: str, form: str) -> None:
    body = AutoModel.from_pretrained(
        model_dir, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    )
    module, output, axes = _FORMS[form]
    input_ids = torch.arange(1000, 1032).reshape(2, 16)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        module(body).eval(),
        (input_ids, torch.ones_like(input_ids)),
        out,
        input_names=["input_ids", "attention_mask"],
        output_names=[output],
        dynamic_axes={
            "input_ids": {0: "batch", 1: "tokens"},
            "attention_mask": {0: "batch", 1: "tokens"},
            output: axes,
        },
        opset_version=_OPSET,
        dynamo=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
