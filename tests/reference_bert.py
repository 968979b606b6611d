"""BERT and RoBERTa as the papers write them: padded, masked, in float64, one formula a line.

Shares no code with the engine, so that an error would have to be made twice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_new": lambda x: (
        0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "relu": lambda x: x.clamp(min=0),
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]


class ReferenceBert:
    def __init__(
        self, family: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> None:
        self.first_position = 0 if family == "bert" else config["pad_token_id"] + 1
        self.config = config
        self.w = {name: tensor.double() for name, tensor in tensors.items()}

    def hidden(
        self, sequences: Sequence[np.ndarray], types: Sequence[np.ndarray] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Hidden states [B, L, H] and the mask [B, L] of what is a token."""
        longest = max(len(s) for s in sequences)
        ids = torch.zeros(len(sequences), longest, dtype=torch.long)
        type_ids, mask = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
        for i, sequence in enumerate(sequences):
            ids[i, : len(sequence)] = torch.tensor(sequence)
            mask[i, : len(sequence)] = True
            if types is not None:
                type_ids[i, : len(sequence)] = torch.tensor(types[i])
        positions = torch.arange(longest) + self.first_position
        x = self.w["embeddings.word_embeddings.weight"][ids]
        x = x + self.w["embeddings.position_embeddings.weight"][positions]
        x = x + self.w["embeddings.token_type_embeddings.weight"][type_ids]
        x = self.norm("embeddings.LayerNorm", x)
        for index in range(self.config["num_hidden_layers"]):
            x = self.block(f"encoder.layer.{index}", x, mask)
        return x, mask

    def block(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        y = self.attention(f"{name}.attention.self", x, mask)
        x = self.norm(
            f"{name}.attention.output.LayerNorm",
            x + self.dense(f"{name}.attention.output.dense", y),
        )
        y = ACTIVATIONS[self.config["hidden_act"]](self.dense(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output.LayerNorm", x + self.dense(f"{name}.output.dense", y))

    def attention(self, name: str, x: Tensor, mask: Tensor) -> Tensor:
        heads = self.config["num_attention_heads"]
        size = x.shape[-1] // heads
        q, k, v = (self.dense(f"{name}.{part}", x) for part in ("query", "key", "value"))
        parts = []
        for head in range(heads):
            h = slice(head * size, (head + 1) * size)
            scores = q[..., h] @ k[..., h].mT / math.sqrt(size)
            scores = scores.masked_fill(~mask[:, None, :], -math.inf)
            weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
            parts.append(weights @ v[..., h])
        return torch.cat(parts, -1)

    def dense(self, name: str, x: Tensor) -> Tensor:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + self.config["layer_norm_eps"]).sqrt()
        return centred / deviation * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def pooled(self, pooling: str, *inputs: Any) -> np.ndarray:
        hidden, mask = self.hidden(*inputs)
        if pooling == "cls":
            return hidden[:, 0].numpy()
        if pooling == "last_token":
            return hidden[torch.arange(len(mask)), mask.sum(1) - 1].numpy()
        return ((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).numpy()

    def scores(self, dense: str, output: str, *inputs: Any) -> np.ndarray:
        first = self.hidden(*inputs)[0][:, 0]
        return self.dense(output, self.dense(dense, first).tanh()).numpy()
