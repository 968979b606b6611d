"""What the families' checkpoints may be called and ask for, and what is refused by name.

That each computes what its reference does is shown in e2e/test_parity_zoo.py.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.pipeline import Pipeline, Rows, Sequences
from reference.zoo import checkpoint as files
from reference.zoo import values
from reference.zoo.registry import GROUPS
from safetensors.numpy import load_file, save_file

import checkpoint.families
import engine.families
from engine.attention import Attention, AttentionSpec
from engine.errors import CheckpointError
from engine.kernels import plain_kernels
from engine.weights import Weights

pytestmark = pytest.mark.usefixtures("one_thread")

Tensors = dict[str, np.ndarray]
SHARDS = "*.safetensors"


def rows_of(directory: Path, longest: int = 24) -> Rows:
    name = directory.name
    reference = values.read(values.GROUP_OF[name])
    sequences = Sequences.stored(reference, f"{name}/sequences").take(range(longest))
    return Pipeline.load(directory).rows(sequences)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(name: str) -> Path:
        files.write(name, GROUPS[values.GROUP_OF[name]][name], tmp_path / name)
        return tmp_path / name

    return write


def configure(directory: Path, *without: str, **entries: Any) -> None:
    path = directory / "config.json"
    config = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({k: v for k, v in config.items() if k not in without}))


def change_tensors(directory: Path, change: Callable[[Tensors], Tensors]) -> None:
    for path in directory.glob(SHARDS):
        save_file(change(load_file(path)), path, metadata={"format": "pt"})


def renamed(*replacements: tuple[str, str]) -> Callable[[Tensors], Tensors]:
    def change(tensors: Tensors) -> Tensors:
        names = {}
        for old in tensors:
            new = old
            for pattern, replacement in replacements:
                new = re.sub(pattern, replacement, new)
            names[old] = new
        assert any(old != new for old, new in names.items())
        return {new: tensors[old] for old, new in names.items()}

    return change


def split(name: str, *parts: str) -> Callable[[Tensors], Tensors]:
    """One packed tensor as several, in this order."""

    def change(tensors: Tensors) -> Tensors:
        changed: Tensors = {}
        for old, tensor in tensors.items():
            if name in old:
                pieces = np.split(tensor, len(parts))
                changed |= {
                    old.replace(name, part): p for part, p in zip(parts, pieces, strict=True)
                }
            else:
                changed[old] = tensor
        return {key: np.ascontiguousarray(tensor) for key, tensor in changed.items()}

    return change


def test_both_halves_of_a_family_have_the_same_key() -> None:
    assert engine.families.FAMILIES.keys() == checkpoint.families.FAMILIES.keys()


QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
NATIVE: Mapping[str, tuple[Callable[[Tensors], Tensors], ...]] = {
    "nomic-native-cls": (
        split("attn.Wqkv", *QKV),
        renamed(
            ("encoder.layers", "layers"),
            ("emb_ln", "embeddings.LayerNorm"),
            (r"(?<!self_)attn.out_proj", "self_attn.o_proj"),
            ("fc11", "up_proj"),
            ("fc12", "gate_proj"),
            ("fc2", "down_proj"),
            ("norm1", "post_attention_layernorm"),
            ("norm2", "post_mlp_layernorm"),
        ),
    ),
    "gte-native-cls": (
        split("attention.qkv_proj", *QKV),
        split("mlp.up_gate_proj", "mlp.up_proj", "mlp.gate_proj"),
        renamed(
            ("encoder.layer", "layers"),
            ("attention.o_proj", "self_attn.o_proj"),
            ("attn_ln", "post_attention_layernorm"),
            ("mlp_ln", "post_mlp_layernorm"),
        ),
    ),
}


@pytest.mark.parametrize("name", NATIVE)
def test_tensors_may_have_the_names_of_transformers(name: str, write: Any) -> None:
    directory = write(name)
    expected = rows_of(directory)
    for change in NATIVE[name]:
        change_tensors(directory, change)
    np.testing.assert_array_equal(rows_of(directory), expected)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("distilbert-mean", "distilbert."),
        ("mpnet-cls", "mpnet."),
        ("nomic-mean", "bert."),
        ("new-untyped-cls", "new."),
        ("gte-native-cls", "gte."),
        ("modernbert-cls", "model."),
        ("qwen3-last", "model."),
        ("pplx-mean", "model."),
        ("gemma3-last", "model."),
    ],
)
def test_names_may_have_the_prefix_of_a_model_with_a_head(
    name: str, prefix: str, write: Any
) -> None:
    directory = write(name)
    expected = rows_of(directory)
    change_tensors(directory, renamed(("^", prefix)))
    np.testing.assert_array_equal(rows_of(directory), expected)


@pytest.mark.parametrize(
    ("name", "architecture", "tensor"),
    [
        ("qwen3-last", "Qwen3ForCausalLM", "lm_head.weight"),
        ("mistral-last", "MistralForCausalLM", "lm_head.weight"),
        ("distilbert-mean", "DistilBertForMaskedLM", "vocab_projector.bias"),
        ("mpnet-mean", "MPNetForMaskedLM", "lm_head.bias"),
        ("modernbert-cls", "ModernBertForMaskedLM", "head.dense.weight"),
        ("nomic-mean", "NomicBertForPreTraining", "cls.predictions.bias"),
        ("bert-legacy-cls", "BertForMaskedLM", "cls.predictions.other"),
    ],
)
def test_head_that_an_embedder_does_not_use_is_left_out(
    name: str, architecture: str, tensor: str, write: Any
) -> None:
    directory = write(name)
    expected = rows_of(directory)
    configure(directory, "auto_map", architectures=[architecture])
    change_tensors(directory, lambda tensors: tensors | {tensor: np.ones(1, np.float32)})
    np.testing.assert_array_equal(rows_of(directory), expected)


def test_head_of_another_architecture_is_an_unexpected_tensor(write: Any) -> None:
    directory = write("mistral-last")
    change_tensors(directory, lambda tensors: tensors | {"lm_head.weight": np.ones(1, np.float32)})
    with pytest.raises(CheckpointError, match=r"unexpected tensors: lm_head\.weight$"):
        rows_of(directory)


def test_frequencies_of_old_checkpoints_are_left_out(write: Any) -> None:
    directory = write("llama-last")
    expected = rows_of(directory)
    buffer = {"layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
    change_tensors(directory, lambda tensors: tensors | buffer)
    np.testing.assert_array_equal(rows_of(directory), expected)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("modernbert-cls", "layers.2.attn_norm.weight"),
        ("qwen3-last", "layers.1.self_attn.q_norm.weight"),
        ("qwen2-last", "layers.0.self_attn.k_proj.bias"),
        ("gemma3-last", "layers.1.pre_feedforward_layernorm.weight"),
        ("mpnet-mean", "encoder.relative_attention_bias.weight"),
        ("nomic-mean", "encoder.layers.2.mlp.fc11.weight"),
        ("new-untyped-cls", "encoder.layer.0.mlp.down_proj.bias"),
        ("distilbert-mean", "transformer.layer.1.ffn.lin2.bias"),
    ],
)
def test_missing_tensor_is_named(name: str, tensor: str, write: Any) -> None:
    directory = write(name)
    change_tensors(directory, lambda tensors: {k: v for k, v in tensors.items() if k != tensor})
    with pytest.raises(CheckpointError, match=f"tensor '{re.escape(tensor)}' is missing"):
        rows_of(directory)


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        # Before transformers 5 a scaling's kind was called `type`.
        ("qwen3-last", {"rope_scaling": {"type": "default"}}),
        # It starts behind the last position.
        ("qwen3-last", {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
        ("qwen3-last", {"use_cache": False, "sliding_window": 4, "use_sliding_window": False}),
        ("gemma3-last", {"layer_types": None, "sliding_window_pattern": 3}),
        ("modernbert-mean", {"layer_types": None, "global_attn_every_n_layers": 3}),
        ("nomic-mean", {"rotary_scaling_factor": 2.0}),
        ("pplx-mean", {"is_causal": False}),
    ],
)
def test_setting_that_says_the_same_changes_nothing(
    name: str, entries: dict[str, Any], write: Any
) -> None:
    directory = write(name)
    expected = rows_of(directory)
    configure(directory, **entries)
    np.testing.assert_array_equal(rows_of(directory), expected)


USED = {"use_sliding_window": True, "max_window_layers": 1, "layer_types": None}


@pytest.mark.parametrize(
    ("name", "entries", "unwindowed"),
    [
        ("mistral-last", {}, set()),
        ("qwen2-last", USED, {None}),
        ("qwen3-last", USED, {None}),
    ],
)
def test_window_that_is_not_configured_is_the_default_of_transformers(
    name: str, entries: dict[str, Any], unwindowed: set[None], write: Any
) -> None:
    directory = write(name)
    configure(directory, "sliding_window", **entries)
    assert windows_of(directory) == {4095} | unwindowed  # behind the token itself
    configure(directory, sliding_window=7)
    assert windows_of(directory) == {6} | unwindowed
    configure(directory, sliding_window=None)
    assert windows_of(directory) == {None}


def windows_of(directory: Path) -> set[int | None]:
    """What the layers ask the kernels for."""
    windows: set[int | None] = set()
    kernels = plain_kernels(torch.float32)

    def attention(spec: AttentionSpec) -> Attention:
        windows.add(spec.window)
        return kernels.attention(spec)

    family = engine.families.FAMILIES["llama"]
    config = json.loads((directory / "config.json").read_text())
    weights = Weights(sorted(directory.glob(SHARDS)), family.prefixes)
    family.load_encoder(config, weights, replace(kernels, attention=attention))
    return windows


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("qwen3-last", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn' with"),
    ("qwen3-last", {"rope_scaling": {"type": "longrope", "factor": 4.0}}, "'longrope'"),
    ("qwen3-last", {"rope_scaling": {"rope_type": "linear"}}, "'linear'"),
    ("llama-last", {"rope_parameters": LLAMA3}, "'llama3' lacks 'high_freq_factor'"),
    ("llama-last", {"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
    ("llama-last", {"rope_parameters": {"full_attention": {}}}, "rope_parameters"),
    ("qwen3-last", {"num_experts": 8}, "num_experts 8 is not known"),
    ("qwen3-last", {"hidden_act": "mish"}, "hidden_act 'mish' is not known"),
    ("qwen3-last", {"rms_norm_eps": None}, "config.json lacks 'rms_norm_eps'"),
    ("qwen3-last", {"layer_types": ["chunked_attention"] * 3}, "'chunked_attention'"),
    ("qwen3-last", {"layer_types": ["full_attention"]}, "layer_types has 1 entries for 3 layers"),
    ("qwen3-last", {"layer_types": ["sliding_attention"] * 3}, "lacks 'sliding_window'"),
    ("gemma3-last", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping 50.0"),
    ("gemma3-last", {"rope_parameters": {"rope_theta": 1e6}}, "rope_parameters"),
    ("modernbert-cls", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
    ("nomic-mean", {"prenorm": True}, "prenorm True is not known, only False"),
    ("nomic-mean", {"rotary_emb_interleaved": True}, "rotary_emb_interleaved"),
    ("nomic-mean", {"rotary_emb_fraction": 0.0}, "rotary_emb_fraction"),
    ("nomic-mean", {"num_experts": 8}, "num_experts"),
    ("nomic-mean", {"activation_function": "gelu"}, "activation_function 'gelu' is not known"),
    ("new-cls", {"position_embedding_type": "absolute"}, "position_embedding_type 'absolute'"),
    ("new-cls", {"logn_attention_scale": True}, "logn_attention_scale"),
    ("new-cls", {"pack_qkv": False}, "pack_qkv"),
    ("new-cls", {"rope_theta": None}, "lacks 'rope_theta'"),
    (
        "new-cls",
        {"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.6}},
        "'ntk' with {'factor': 8.0, 'mixed_b': 0.6}",
    ),
    ("mpnet-cls", {"relative_attention_num_buckets": 64}, "relative_attention_num_buckets 64"),
    ("distilbert-mean", {"n_heads": 5}, "no multiple of 5 heads"),
    ("qwen3-last", {"intermediate_size": "96"}, "intermediate_size is '96', a str and not an"),
    ("qwen3-last", {"head_dim": 16.0}, "head_dim is 16.0, a float and not an integer"),
    ("gemma3-last", {"num_key_value_heads": True}, "num_key_value_heads is True, a bool and not"),
    ("modernbert-cls", {"local_attention": [8]}, "local_attention is [8], a list and not an"),
    ("nomic-mean", {"n_inner": "64"}, "n_inner is '64', a str and not an integer"),
]


@pytest.mark.parametrize(("name", "entries", "message"), REFUSED)
def test_setting_of_another_model_is_refused(
    name: str, entries: dict[str, Any], message: str, write: Any
) -> None:
    directory = write(name)
    configure(directory, **entries)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        rows_of(directory)


def test_types_are_ignored_by_a_model_without_them(write: Any) -> None:
    pipeline = Pipeline.load(write("distilbert-mean"))
    ids = [np.arange(8, 20, dtype=np.int32)]
    zeros, ones = (Sequences(ids, [np.full(12, kind, np.uint8)]) for kind in (0, 1))
    np.testing.assert_array_equal(pipeline.rows(ones), pipeline.rows(zeros))
