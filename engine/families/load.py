"""From shape, names and tensors to an encoder: the one loader of all families."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.attention import Attention, AttentionSpec
from engine.block import Block, Mlp, SelfAttention
from engine.encoder import Embeddings, Encoder
from engine.errors import CheckpointError
from engine.families.names import Names
from engine.families.relative_bias import bias_by_distance
from engine.families.shape import Layer, Shape
from engine.join import JoinNorms
from engine.kernels import Kernels
from engine.norm import LayerNorm, Norm, RmsNorm
from engine.rotary import RotaryTable, rotary_table
from engine.settings import Config
from engine.weights import Weights

LoadEncoder = Callable[[Config, Weights, Kernels], Encoder]


def encoder_loader(read_shape: Callable[[Config], Shape], *spellings: Names) -> LoadEncoder:
    """`spellings`: names that the family's tensors may have; the first by default."""

    def load_encoder(config: Config, weights: Weights, kernels: Kernels) -> Encoder:
        names = next((names for names in spellings if names.are_of(weights)), spellings[0])
        return _Loader(read_shape(config), names, weights, kernels).encoder()

    return load_encoder


@dataclass(frozen=True)
class _Loader:
    """Takes tensor by tensor, so that of a large model no second copy is held."""

    shape: Shape
    names: Names
    weights: Weights
    kernels: Kernels
    attentions: dict[Layer, Attention] = field(default_factory=dict)
    tables: dict[Layer, RotaryTable] = field(default_factory=dict)

    def encoder(self) -> Encoder:
        shape, kernels = self.shape, self.kernels
        if not shape.layers:
            raise CheckpointError("config.json: the model has no layers")
        embeddings = self.embeddings()
        bias = self.relative_bias()
        for layer in set(shape.layers):
            self.attentions[layer] = kernels.attention(self.attention_spec(layer, bias))
            if layer.rope is not None:
                frequencies = layer.rope.frequencies(shape.head_dim)
                table = rotary_table(frequencies, shape.max_positions)
                self.tables[layer] = kernels.rotary(table)
        enter = self.entering(0)
        blocks = [self.block(index, layer) for index, layer in enumerate(shape.layers)]
        return Encoder(
            embeddings,
            kernels.embed(embeddings),
            None if enter is None else kernels.norm(enter),
            blocks,
            kernels.layers(blocks),
        )

    def embeddings(self) -> Embeddings:
        shape, names = self.shape, self.names
        words = self.weights.take(f"{names.words}.weight", shape.vocabulary, shape.width)
        types = None
        if names.types is not None and shape.types:
            types = self.weights.take(f"{names.types}.weight", shape.types, shape.width)
        positions = None
        if names.positions is not None:
            rows = shape.first_position + shape.max_positions
            positions = self.weights.take(f"{names.positions}.weight", rows, shape.width)
            positions = positions[shape.first_position :]
            if types is not None:
                positions = (types[:, None] + positions).flatten(0, 1)
        return Embeddings(
            words=self.cast(words if shape.embedding_scale == 1 else words * shape.embedding_scale),
            max_positions=shape.max_positions,
            types=shape.types,
            positions=None if positions is None else self.cast(positions),
            type_rows=None if types is None or positions is not None else self.cast(types),
            norm=self.norm(names.embedding_norm),
        )

    def relative_bias(self) -> Tensor | None:
        if self.names.relative_bias is None:
            return None
        table = self.weights.take(f"{self.names.relative_bias}.weight", -1, self.shape.heads)
        return bias_by_distance(table)

    def attention_spec(self, layer: Layer, bias: Tensor | None) -> AttentionSpec:
        shape = self.shape
        return AttentionSpec(
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            scale=shape.head_dim**-0.5 if shape.scale is None else shape.scale,
            causal=layer.causal,
            window=layer.window,
            bias=bias,
        )

    def block(self, index: int, layer: Layer) -> Block:
        """The norm before its attention is not here: it is part of the join before it."""
        name, join = self.names.layer.format(index), self.kernels.join
        attention, mlp = self.names.attention_norms, self.names.mlp_norms
        behind, total, before = (
            self.layer_norm(index, norm) for norm in (attention.behind, attention.sum, mlp.before)
        )
        mlp_behind, mlp_total = (self.layer_norm(index, norm) for norm in (mlp.behind, mlp.sum))
        return Block(
            attention=self.attention(name, layer),
            attention_join=join(JoinNorms(behind, total, before)),
            mlp=self.mlp(name),
            mlp_join=join(JoinNorms(mlp_behind, mlp_total, self.entering(index + 1))),
        )

    def entering(self, index: int) -> Norm | None:
        """The norm before a layer's attention; behind the last one the model's own."""
        if index == len(self.shape.layers):
            return self.norm(self.names.final_norm)
        if index == 0 and not self.shape.norms_first_attention:
            return None
        return self.layer_norm(index, self.names.attention_norms.before)

    def layer_norm(self, index: int, name: str | None) -> Norm | None:
        return self.norm(None if name is None else f"{self.names.layer.format(index)}.{name}")

    def attention(self, name: str, layer: Layer) -> SelfAttention:
        shape, names, biases = self.shape, self.names, self.shape.biases
        attended, shared = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        qkv = [f"{name}.{part}" for part in names.qkv]
        output = [f"{name}.{names.attention_output}"]
        linear = self.kernels.linear
        return SelfAttention(
            qkv=linear(*self.stacked(qkv, (attended, shared, shared), shape.width, biases.qkv)),
            head_dim=shape.head_dim,
            turned_heads=shape.heads + shape.kv_heads,
            attend=self.attentions[layer],
            output=linear(*self.stacked(output, (shape.width,), attended, biases.attention_output)),
            qk_norm=self.qk_norm(name),
            rotary=self.tables.get(layer),
        )

    def mlp(self, name: str) -> Mlp:
        shape, names, biases = self.shape, self.names, self.shape.biases
        inner, linear = shape.mlp_width, self.kernels.linear
        outer = [f"{name}.{part}" for part in names.mlp_in]
        down = self.stacked([f"{name}.{names.mlp_out}"], (shape.width,), inner, biases.mlp_out)
        if not shape.gated:
            up = self.stacked(outer, (inner,), shape.width, biases.mlp_in)
            return Mlp(linear(*up, shape.hidden_act), linear(*down))
        weight, bias = self.stacked(outer, (inner, inner), shape.width, biases.mlp_in)
        if names.up_first:
            weight = weight.roll(inner, 0)
            bias = None if bias is None else bias.roll(inner, 0)
        return Mlp(self.kernels.gated_linear(weight, bias, shape.hidden_act), linear(*down))

    def stacked(
        self, names: Sequence[str], outputs: Sequence[int], inputs: int, bias: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Weights and biases of layers with one input, which may be one tensor already."""
        if len(names) == 1:
            outputs = [sum(outputs)]
        shapes = list(zip(names, outputs, strict=True))
        weight = _joined([self.weights.take(f"{name}.weight", n, inputs) for name, n in shapes])
        if not bias:
            return weight, None
        return weight, _joined([self.weights.take(f"{name}.bias", n) for name, n in shapes])

    def qk_norm(self, name: str) -> Norm | None:
        shape = self.shape
        if not shape.qk_norm or self.names.qk_norms is None:
            return None
        queries, keys = (
            self.norm_weight(f"{name}.{norm}", shape.head_dim) for norm in self.names.qk_norms
        )
        weight = torch.cat([queries.expand(shape.heads, -1), keys.expand(shape.kv_heads, -1)])
        return RmsNorm(weight, shape.eps)

    def norm(self, name: str | None) -> Norm | None:
        if name is None:
            return None
        width, eps = self.shape.width, self.shape.eps
        weight = self.norm_weight(name, width)
        if self.shape.norm != "layer":
            return RmsNorm(weight, eps)
        bias = self.weights.take(f"{name}.bias", width) if self.shape.biases.norm else None
        dtype = self.kernels.norm_dtype
        return LayerNorm(weight.to(dtype), None if bias is None else bias.to(dtype), eps)

    def norm_weight(self, name: str, width: int) -> Tensor:
        weight = self.weights.take(f"{name}.weight", width)
        return weight + 1 if self.shape.norm == "rms_plus_one" else weight

    def cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.kernels.dtype)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
