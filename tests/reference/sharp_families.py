"""The layers of the sharp checkpoints, by the tensor names that transformers saves them under."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference import sharp_tokenizers
from tokenizers import Tokenizer

HIDDEN = 64
HEADS = 4
INTERMEDIATE = 128
MAX_TOKENS = 64  # of every checkpoint, special tokens included

Tensors = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Backbone:
    """What a family writes at the top of a checkpoint's directory."""

    config: dict[str, Any]
    tensors: Tensors
    tokenizer: Tokenizer
    tokenizer_config: dict[str, Any]


class Parameters:
    """Random parameters, drawn in the order in which they are asked for."""

    def __init__(self, name: str) -> None:
        self._generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))

    def matrix(self, rows: int, columns: int) -> NDArray[np.float32]:
        return self._normal(rows, columns)

    def vector(self, size: int) -> NDArray[np.float32]:
        return self._normal(size)

    def linear(self, name: str, inputs: int, outputs: int, bias: bool = True) -> Tensors:
        tensors = {f"{name}.weight": self.matrix(outputs, inputs)}
        return tensors | ({f"{name}.bias": self.vector(outputs)} if bias else {})

    def norm(self, name: str, size: int, bias: bool = True) -> Tensors:
        tensors = {f"{name}.weight": 1 + self.vector(size)}
        return tensors | ({f"{name}.bias": self.vector(size)} if bias else {})

    def _normal(self, *shape: int) -> NDArray[np.float32]:
        return (0.3 * self._generator.standard_normal(shape)).astype(np.float32)


def _bert(parameters: Parameters, scores: bool) -> Backbone:
    prefix = "bert." if scores else ""  # BertModel alone is saved without it
    tokenizer = sharp_tokenizers.bert()
    config = _encoder_config(tokenizer, layers=2) | {
        "architectures": ["BertForSequenceClassification" if scores else "BertModel"],
        "model_type": "bert",
        "max_position_embeddings": MAX_TOKENS,
        "type_vocab_size": 2,
        "pad_token_id": 0,
    }
    tensors = _encoder(parameters, config, prefix)
    tensors |= parameters.linear(f"{prefix}pooler.dense", HIDDEN, HIDDEN)
    if scores:
        config |= ONE_LABEL
        tensors |= parameters.linear("classifier", HIDDEN, 1)
    tokenizer_config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    return Backbone(config, tensors, tokenizer, tokenizer_config | BERT_SPECIALS)


def _roberta(parameters: Parameters, scores: bool) -> Backbone:
    tokenizer = sharp_tokenizers.byte_level_bpe()
    config = _encoder_config(tokenizer, layers=2) | {"model_type": "roberta"}
    return _roberta_backbone(parameters, scores, config, tokenizer, "Roberta")


def _xlm_roberta(parameters: Parameters, scores: bool) -> Backbone:
    tokenizer = sharp_tokenizers.unigram()
    config = _encoder_config(tokenizer, layers=3) | {"model_type": "xlm-roberta"}
    return _roberta_backbone(parameters, scores, config, tokenizer, "XLMRoberta")


def _camembert(parameters: Parameters, scores: bool) -> Backbone:
    tokenizer = sharp_tokenizers.camembert()
    config = _encoder_config(tokenizer, layers=2) | {"model_type": "camembert"}
    backbone = _roberta_backbone(parameters, scores, config, tokenizer, "Camembert")
    backbone.config.update(bos_token_id=5, eos_token_id=6)
    return backbone


def _roberta_backbone(
    parameters: Parameters,
    scores: bool,
    config: dict[str, Any],
    tokenizer: Tokenizer,
    class_prefix: str,
) -> Backbone:
    prefix = "roberta." if scores else ""
    config |= {
        "architectures": [class_prefix + ("ForSequenceClassification" if scores else "Model")],
        "max_position_embeddings": MAX_TOKENS + 2,  # positions start at pad_token_id + 1
        "type_vocab_size": 1,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }
    tensors = _encoder(parameters, config, prefix)
    if scores:
        config |= ONE_LABEL
        tensors |= parameters.linear("classifier.dense", HIDDEN, HIDDEN)
        tensors |= parameters.linear("classifier.out_proj", HIDDEN, 1)
    else:
        tensors |= parameters.linear("pooler.dense", HIDDEN, HIDDEN)  # saved, and not used
    tokenizer_config = {"tokenizer_class": f"{class_prefix}Tokenizer"}
    return Backbone(config, tensors, tokenizer, tokenizer_config | ROBERTA_SPECIALS)


FAMILIES: Mapping[str, Callable[[Parameters, bool], Backbone]] = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _xlm_roberta,
    "camembert": _camembert,
}

ONE_LABEL = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}

BERT_SPECIALS = {
    "model_max_length": MAX_TOKENS,
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
}
ROBERTA_SPECIALS = {
    "model_max_length": MAX_TOKENS,
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "mask_token": "<mask>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
}


def _encoder_config(tokenizer: Tokenizer, layers: int) -> dict[str, Any]:
    return {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "intermediate_size": INTERMEDIATE,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-2,  # large, so that another value in its place shows
        "attention_probs_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
    }


def _encoder(parameters: Parameters, config: Mapping[str, Any], prefix: str) -> Tensors:
    """BERT's names; RoBERTa's are the same below another prefix."""
    tensors = {
        f"{prefix}embeddings.{name}_embeddings.weight": parameters.matrix(config[rows], HIDDEN)
        for name, rows in (
            ("word", "vocab_size"),
            ("position", "max_position_embeddings"),
            ("token_type", "type_vocab_size"),
        )
    }
    tensors |= parameters.norm(f"{prefix}embeddings.LayerNorm", HIDDEN)
    for layer in range(config["num_hidden_layers"]):
        name = f"{prefix}encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            tensors |= parameters.linear(f"{name}.attention.self.{part}", HIDDEN, HIDDEN)
        tensors |= parameters.linear(f"{name}.attention.output.dense", HIDDEN, HIDDEN)
        tensors |= parameters.norm(f"{name}.attention.output.LayerNorm", HIDDEN)
        tensors |= parameters.linear(f"{name}.intermediate.dense", HIDDEN, INTERMEDIATE)
        tensors |= parameters.linear(f"{name}.output.dense", INTERMEDIATE, HIDDEN)
        tensors |= parameters.norm(f"{name}.output.LayerNorm", HIDDEN)
    return tensors
