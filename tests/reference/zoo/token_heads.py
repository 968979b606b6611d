"""A vector a token, a weight a piece of the vocabulary, a vector a chunk.

`colbert` is saved by PyLate, whose modules.json leaves out what follows its Dense; the other in
sentence-transformers 6's layout. Both give every token's vector here: which tokens a search skips
is no part of it. bge-m3 keeps two heads beside modules.json, as torch's own files.
"""

from collections.abc import Mapping
from pathlib import Path

from reference.mutants import Mutant
from reference.sharp_families import FAMILIES, HIDDEN, MAX_TOKENS, Backbone, Parameters
from reference.zoo import changes
from reference.zoo.bidirectional import CHECKPOINTS as BIDIRECTIONAL
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.modules import (
    IDENTITY,
    Module,
    Written,
    dense_6,
    normalize,
    pooling,
    splade_pooling,
    splade_pooling_6,
    transformer,
    transformer_6,
)

WIDTH = 32  # of a token's vector
LENGTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 62, 63, 64)  # few: a row a token


def _bert(parameters: Parameters) -> Backbone:
    return FAMILIES["bert"](parameters, False)


def _bert_lm(parameters: Parameters) -> Backbone:
    """With a masked LM's head; its decoder is the embedding table."""
    backbone = FAMILIES["bert"](parameters, False)
    backbone.config["architectures"] = ["BertForMaskedLM"]
    encoder = {
        f"bert.{name}": tensor
        for name, tensor in backbone.tensors.items()
        if not name.startswith("pooler.")
    }
    head = parameters.linear("cls.predictions.transform.dense", HIDDEN, HIDDEN)
    head |= parameters.norm("cls.predictions.transform.LayerNorm", HIDDEN)
    head |= {"cls.predictions.bias": parameters.vector(backbone.config["vocab_size"])}
    return Backbone(backbone.config, encoder | head, backbone.tokenizer, backbone.tokenizer_config)


def _bge_m3(parameters: Parameters) -> Backbone:
    return FAMILIES["xlm-roberta"](parameters, False)


def _write_heads(parameters: Parameters, directory: Path) -> None:
    import torch

    for name, outputs in (("sparse_linear.pt", 1), ("colbert_linear.pt", HIDDEN)):
        tensors = parameters.linear("", HIDDEN, outputs)
        head = {key.strip("."): torch.from_numpy(tensor) for key, tensor in tensors.items()}
        torch.save(head, directory / name)


def _pylate_dense(parameters: Parameters) -> Written:
    config = {
        "in_features": HIDDEN,
        "out_features": WIDTH,
        "bias": False,
        "activation_function": IDENTITY,
    }
    return Written(
        "pylate.models.Dense.Dense",
        config,
        parameters.linear("linear", HIDDEN, WIDTH, bias=False),
    )


def _mask(_: Parameters) -> Written:
    return Written(
        "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
        {"skiplist_words": [], "skiplist_tasks": ["document"], "keep_only_token_ids": None},
    )


def _normalize_tokens(_: Parameters) -> Written:
    return Written(
        "sentence_transformers.base.modules.normalize.Normalize",
        {"module_input_name": "token_embeddings"},
    )


_COLBERT = {
    "model_type": "ColBERT",
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": 32,
    "document_length": MAX_TOKENS,
    "attend_to_expansion_tokens": False,
    "skiplist_words": [".", ","],
    "similarity_fn_name": "MaxSim",
}
_ATTENTION = {"attention scale halved": Mutant(r"self\.query\.", changes.halve)}
_LM_HEAD = _ATTENTION | {
    "no bias of the head's layer": Mutant(r"transform\.dense\.bias"),
    "no bias of the head's norm": Mutant(r"transform\.LayerNorm\.bias"),
    "no bias of the decoder": Mutant(r"cls\.predictions\.bias"),
}
_BGE_M3: tuple[Module, ...] = (transformer(MAX_TOKENS), pooling("cls_token", HIDDEN), normalize)
_PPLX = BIDIRECTIONAL["pplx-mean"]

CHECKPOINTS: Mapping[str, Checkpoint] = {
    "colbert": Checkpoint(
        _bert,
        (transformer(MAX_TOKENS), _pylate_dense),
        answer="tokens",
        lengths=LENGTHS,
        settings=_COLBERT,
        mutants=_ATTENTION,
    ),
    "colbert-6": Checkpoint(
        _bert,
        (
            transformer_6("feature-extraction", "token_embeddings"),
            dense_6(HIDDEN, WIDTH, IDENTITY, "token_embeddings"),
            _mask,
            _normalize_tokens,
        ),
        answer="tokens",
        lengths=LENGTHS,
        settings={"model_type": "MultiVectorEncoder", "similarity_fn_name": "MaxSim"},
        mutants={"no bias of the Dense": Mutant(r"^linear\.bias")},
    ),
    "splade": Checkpoint(
        _bert_lm,
        (
            transformer(MAX_TOKENS, "sparse_encoder.models.MLMTransformer"),
            splade_pooling("max", "relu"),
        ),
        answer="sparse",
        settings={"model_type": "SparseEncoder", "similarity_fn_name": "dot"},
        mutants=_LM_HEAD
        | {
            "summed": Mutant(
                config={"pooling_strategy": "sum"}, file="1_SpladePooling/config.json"
            ),
        },
    ),
    "splade-sum-6": Checkpoint(
        _bert_lm,
        (
            transformer_6("fill-mask", "token_embeddings", "logits"),
            splade_pooling_6("sum", "log1p_relu"),
        ),
        answer="sparse",
        settings={"model_type": "SparseEncoder", "similarity_fn_name": "dot"},
        mutants=_LM_HEAD
        | {
            "one logarithm": Mutant(
                config={"activation_function": "relu"}, file="1_SpladePooling/config.json"
            ),
            "largest": Mutant(
                config={"pooling_strategy": "max"}, file="1_SpladePooling/config.json"
            ),
        },
    ),
    "bge-m3-lexical": Checkpoint(
        _bge_m3, _BGE_M3, answer="lexical", also_writes=_write_heads, mutants=_ATTENTION
    ),
    "bge-m3-multi-vectors": Checkpoint(
        _bge_m3,
        _BGE_M3,
        answer="multi_vectors",
        lengths=LENGTHS,
        also_writes=_write_heads,
        mutants=_ATTENTION,
    ),
    "pplx-spans": Checkpoint(
        _PPLX.body,
        _PPLX.modules,
        answer="spans",
        in_transformers=_PPLX.in_transformers,
        mutants=changes.without(_PPLX.mutants, "first token pooled", "last token pooled"),
    ),
}
