"""Checkpoints of random weights, whole, as Hugging Face's libraries read them and as ours does."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from bench.gpu.shapes import ModelShape
from checkpoint.spec import ModelFiles, ModelSpec, Module

_MODULES = ("Transformer", "Pooling")
_POOLING_NAMES = {"cls": "cls_token", "mean": "mean_tokens", "last_token": "lasttoken"}
_FAMILIES = {"bert": "bert", "xlm-roberta": "roberta", "qwen3": "llama"}
_SEED = 20_261_129

# In words that nobody asks for: texts are given as ids.
_VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "text": 2}


class Checkpoints:
    """One directory for each model, written when first asked for."""

    def __init__(self, directory: Path, place: torch.device) -> None:
        """`place`: where the weights are drawn, in which a GPU is quicker than a CPU."""
        self._directory, self._place = directory, place
        self._weights: dict[ModelShape, Path] = {}  # models that differ in their mask share them

    def directory(self, shape: ModelShape) -> Path:
        directory = self._directory / shape.name
        if not directory.exists():
            (directory / "1_Pooling").mkdir(parents=True)
            self._write_weights(shape, directory / "model.safetensors")
            for name, content in _json_files(shape).items():
                (directory / name).write_text(json.dumps(content, indent=1))
        return directory

    def spec(self, shape: ModelShape) -> ModelSpec:
        return ModelSpec(
            id=shape.name,
            task="embed",
            family=_FAMILIES[shape.architecture],
            dim=shape.width,
            max_tokens=shape.max_tokens,
            max_tokens_source="the bench",
            vocab_size=shape.vocabulary,
            tokenizer_sha256="",
            revision="random",
            pooling=shape.pooling,
        )

    def files(self, shape: ModelShape) -> ModelFiles:
        directory = self.directory(shape)
        transformer, pooling = _MODULES
        return ModelFiles(
            directory=directory,
            config=_config(shape),
            modules=(
                Module(transformer, directory, {}),
                Module(pooling, directory / "1_Pooling", _pooling_config(shape)),
            ),
            weights=(directory / "model.safetensors",),
        )

    def _write_weights(self, shape: ModelShape, path: Path) -> None:
        same = replace(shape, name="", pooling="mean", causal=False)
        if same in self._weights:
            path.hardlink_to(self._weights[same])
            return
        generator = torch.Generator(self._place).manual_seed(_SEED)
        tensors = {name: _drawn(name, size, generator).cpu() for name, size in _tensor_sizes(shape)}
        save_file(tensors, path, metadata={"format": "pt"})
        self._weights[same] = path


def _drawn(name: str, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Matrices keep the size of what they multiply, so that attention is as uneven as a trained
    model's: with small weights it would be uniform, and a wrong score would go unnoticed."""
    values = torch.randn(size, generator=generator, device=generator.device)
    if len(size) == 2 and "embed" not in name:
        values *= size[1] ** -0.5
    elif "norm" in name.lower():
        values = 0.1 * values + name.endswith("weight")
    elif len(size) == 1:
        values *= 0.1
    return values.bfloat16()


def _tensor_sizes(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    return _SIZES[shape.architecture](shape)


def _qwen3_sizes(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, mlp_width = shape.width, shape.mlp_width
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "embed_tokens.weight", (shape.vocabulary, width)
    for index in range(shape.layers):
        layer = f"layers.{index}"
        yield f"{layer}.input_layernorm.weight", (width,)
        yield f"{layer}.self_attn.q_proj.weight", (queries, width)
        yield f"{layer}.self_attn.k_proj.weight", (keys, width)
        yield f"{layer}.self_attn.v_proj.weight", (keys, width)
        yield f"{layer}.self_attn.q_norm.weight", (shape.head_dim,)
        yield f"{layer}.self_attn.k_norm.weight", (shape.head_dim,)
        yield f"{layer}.self_attn.o_proj.weight", (width, queries)
        yield f"{layer}.post_attention_layernorm.weight", (width,)
        yield f"{layer}.mlp.gate_proj.weight", (mlp_width, width)
        yield f"{layer}.mlp.up_proj.weight", (mlp_width, width)
        yield f"{layer}.mlp.down_proj.weight", (width, mlp_width)
    yield "norm.weight", (width,)


def _bert_sizes(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, config = shape.width, _config(shape)
    yield "embeddings.word_embeddings.weight", (shape.vocabulary, width)
    yield "embeddings.position_embeddings.weight", (config["max_position_embeddings"], width)
    yield "embeddings.token_type_embeddings.weight", (config["type_vocab_size"], width)
    yield from _affine("embeddings.LayerNorm", (width,))
    for index in range(shape.layers):
        layer = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            yield from _affine(f"{layer}.attention.self.{part}", (width, width))
        yield from _affine(f"{layer}.attention.output.dense", (width, width))
        yield from _affine(f"{layer}.attention.output.LayerNorm", (width,))
        yield from _affine(f"{layer}.intermediate.dense", (shape.mlp_width, width))
        yield from _affine(f"{layer}.output.dense", (width, shape.mlp_width))
        yield from _affine(f"{layer}.output.LayerNorm", (width,))
    yield from _affine("pooler.dense", (width, width))  # which embeddings are made without


def _affine(name: str, size: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", size
    yield f"{name}.bias", size[:1]


_SIZES: dict[str, Callable[[ModelShape], Iterator[tuple[str, tuple[int, ...]]]]] = {
    "bert": _bert_sizes,
    "xlm-roberta": _bert_sizes,
    "qwen3": _qwen3_sizes,
}


def _json_files(shape: ModelShape) -> dict[str, Any]:
    kinds = [f"sentence_transformers.models.{kind}" for kind in _MODULES]
    return {
        "config.json": _config(shape),
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": kinds[0]},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": kinds[1]},
        ],
        "1_Pooling/config.json": _pooling_config(shape),
        "sentence_bert_config.json": {"max_seq_length": shape.max_tokens, "do_lower_case": False},
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "vocab": _VOCABULARY, "unk_token": "[UNK]"},
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
        },
    }


def _pooling_config(shape: ModelShape) -> dict[str, Any]:
    modes = {f"pooling_mode_{name}": name for name in _POOLING_NAMES.values()}
    chosen = _POOLING_NAMES[shape.pooling]
    return {
        "word_embedding_dimension": shape.width,
        **{key: name == chosen for key, name in modes.items()},
    }


def _config(shape: ModelShape) -> dict[str, Any]:
    """config.json."""
    config = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.mlp_width,
        "dtype": "bfloat16",
    }
    if shape.architecture == "qwen3":
        return config | {
            "architectures": ["Qwen3Model"],
            "model_type": "qwen3",
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": shape.max_tokens,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000,
            "use_cache": False,
            "is_causal": shape.causal,
        }
    # Positions of XLM-R begin behind the id of the padding.
    first = 2 if shape.architecture == "xlm-roberta" else 0
    return config | {
        "architectures": ["XLMRobertaModel" if first else "BertModel"],
        "model_type": shape.architecture,
        "hidden_act": "gelu",
        "max_position_embeddings": shape.max_tokens + first,
        "type_vocab_size": 1 if first else 2,
        "layer_norm_eps": 1e-5 if first else 1e-12,
        "pad_token_id": 1 if first else 0,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
