"""A BERT with a WordPiece tokenizer as GGUF, for llama.cpp.

python -P bench/peers/prepare/write_gguf.py MODEL_DIRECTORY OUT.gguf

Runs in the environment of llama.cpp. Names and vocabulary are as llama.cpp's own converter writes
them: matrices as bfloat16, the rest as float32.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

_TENSORS = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
_LAYER_TENSORS = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_SPECIALS = {"[PAD]": "pad", "[UNK]": "unk", "[CLS]": "bos", "[SEP]": "sep", "[MASK]": "mask"}


def main(model_dir: str, out: str) -> None:
    directory = Path(model_dir)
    config = json.loads((directory / "config.json").read_text())
    writer = gguf.GGUFWriter(out, "bert")
    _add_config(writer, config)
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    _add_tokenizer(writer, tokenizer["model"]["vocab"], config["type_vocab_size"])
    weights = load_file(directory / "model.safetensors")
    for ours, theirs in _names(config["num_hidden_layers"]).items():
        for part in ("weight", "bias"):
            if f"{ours}.{part}" in weights:
                _add_tensor(writer, f"{theirs}.{part}", weights[f"{ours}.{part}"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_config(writer: Any, config: dict[str, Any]) -> None:
    writer.add_name(Path(config.get("_name_or_path", "bert")).name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)


def _add_tokenizer(writer: Any, vocabulary: dict[str, int], types: int) -> None:
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    special = {token for token in tokens if token in _SPECIALS or token.startswith("[unused")}
    kinds = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    writer.add_tokenizer_model("bert")
    writer.add_token_type_count(types)
    writer.add_token_list([t if t in special else _phantom(t) for t in tokens])
    writer.add_token_types(kinds)
    for token, name in _SPECIALS.items():
        getattr(writer, f"add_{name}_token_id")(vocabulary[token])


def _phantom(token: str) -> str:
    """A word begins with a space that is not there; what goes on has no mark."""
    return token[2:] if token.startswith("##") else "\u2581" + token


def _names(layers: int) -> dict[str, str]:
    names = dict(_TENSORS)
    for layer in range(layers):
        for ours, theirs in _LAYER_TENSORS.items():
            names[f"encoder.layer.{layer}.{ours}"] = f"blk.{layer}.{theirs}"
    return names


def _add_tensor(writer: Any, name: str, values: NDArray[Any]) -> None:
    values = values.astype(np.float32)
    # What is only looked up or added stays exact, as their converter has it.
    if values.ndim == 1 or name.startswith(("position_embd", "token_types")):
        writer.add_tensor(name, values)
    else:
        kind = gguf.GGMLQuantizationType.BF16
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
