"""MPNet: BERT without token types, positions from 2, and one bias by distance for all layers.

The bias has 32 buckets; half are of one side, and of those the upper half are logarithmic up to 128
tokens of distance. So the sequences are longer than elsewhere. all-mpnet-base-v2 names a masked LM
as its architecture and keeps an integer tensor of positions: so does `mpnet-mean`.
"""

from collections.abc import Callable, Mapping

import numpy as np
from reference.mutants import Mutant, Mutants
from reference.sharp_families import HEADS, HIDDEN, INTERMEDIATE, Backbone, Parameters, Tensors
from reference.sharp_tokenizers import word_piece
from reference.zoo import changes
from reference.zoo.checkpoint import Checkpoint
from reference.zoo.modules import Module, normalize, pooling, transformer
from tokenizers import Tokenizer, processors

LAYERS = 2
BUCKETS = 32
MAX_TOKENS = 192
_BIAS_SCALE = np.float32(3)  # it is added to scores of that size
LENGTHS = (*range(1, 34), 63, 64, 65, 100, 127, 128, 129, 130, 131, 160, 191, 192)


def _tokenizer() -> Tokenizer:
    """`<s> a </s>`, and `<s> a </s></s> b </s>`; BERT's pieces."""
    tokenizer = word_piece(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def _body(architecture: str, position_ids: bool = False) -> Callable[[Parameters], Backbone]:
    def backbone(parameters: Parameters) -> Backbone:
        tokenizer = _tokenizer()
        config = {
            "architectures": [architecture],
            "attention_probs_dropout_prob": 0.1,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": HIDDEN,
            "initializer_range": 0.02,
            "intermediate_size": INTERMEDIATE,
            "layer_norm_eps": 1e-2,
            "max_position_embeddings": MAX_TOKENS + 2,
            "model_type": "mpnet",
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "pad_token_id": 1,
            "relative_attention_num_buckets": BUCKETS,
            "torch_dtype": "float32",
            "vocab_size": tokenizer.get_vocab_size(),
        }
        tensors = _encoder(parameters, tokenizer.get_vocab_size())
        if position_ids:
            tensors["embeddings.position_ids"] = np.arange(MAX_TOKENS + 2)[None]  # saved, not used
        tokenizer_config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_TOKENS,
            "do_lower_case": True,
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "mask_token": "<mask>",
            "pad_token": "<pad>",
            "sep_token": "</s>",
            "unk_token": "[UNK]",
        }
        return Backbone(config, tensors, tokenizer, tokenizer_config)

    return backbone


def _encoder(parameters: Parameters, rows: int) -> Tensors:
    tensors = {
        "embeddings.word_embeddings.weight": parameters.matrix(rows, HIDDEN),
        "embeddings.position_embeddings.weight": parameters.matrix(MAX_TOKENS + 2, HIDDEN),
        "encoder.relative_attention_bias.weight": parameters.matrix(BUCKETS, HEADS) * _BIAS_SCALE,
    }
    tensors |= parameters.norm("embeddings.LayerNorm", HIDDEN)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for part in "qkvo":
            tensors |= parameters.linear(f"{name}.attention.attn.{part}", HIDDEN, HIDDEN)
        tensors |= parameters.norm(f"{name}.attention.LayerNorm", HIDDEN)
        tensors |= parameters.linear(f"{name}.intermediate.dense", HIDDEN, INTERMEDIATE)
        tensors |= parameters.linear(f"{name}.output.dense", INTERMEDIATE, HIDDEN)
        tensors |= parameters.norm(f"{name}.output.LayerNorm", HIDDEN)
    return tensors | parameters.linear("pooler.dense", HIDDEN, HIDDEN)  # saved, and not used


_BIAS = r"relative_attention_bias"

MUTANTS: Mutants = {
    "no bias by distance": Mutant(_BIAS),
    "bias by distance before scaling": Mutant(_BIAS, lambda bias: bias / 4),  # √16
    "bias of the other side": Mutant(_BIAS, changes.swap_halves),
    "bias one token late": Mutant(_BIAS, changes.shift_rows(1)),
    "bias of another head": Mutant(_BIAS, lambda bias: np.roll(bias, 1, axis=1)),
    "far buckets alike": Mutant(_BIAS, lambda bias: bias[np.minimum(np.arange(32) % 16, 14)]),
    "positions from 1": Mutant(r"position_embeddings", changes.shift_rows(1)),
    "positions from 0": Mutant(r"position_embeddings", changes.shift_rows(2)),
    "no positions": Mutant(r"position_embeddings"),
    "attention scale halved": Mutant(r"attn\.q\.", changes.halve),
    "heads of another width": Mutant(r"attn\.[qk]\.", changes.shift_rows(8)),
    "heads of values swapped": Mutant(r"attn\.v\.", changes.swap_halves),
    "no bias of queries": Mutant(r"attn\.q\.bias"),
    "no bias of values": Mutant(r"attn\.v\.bias"),
    "no bias after attention": Mutant(r"attn\.o\.bias"),
    "no bias before the activation": Mutant(r"intermediate\.dense\.bias"),
    "no bias after the activation": Mutant(r"\d\.output\.dense\.bias"),
    "no bias of the embeddings' norm": Mutant(r"embeddings\.LayerNorm\.bias"),
    "no bias of the norm after attention": Mutant(r"attention\.LayerNorm\.bias"),
    "no bias of the norm after the MLP": Mutant(r"output\.LayerNorm\.bias"),
    "GELU by tanh": Mutant(config={"hidden_act": "gelu_new"}),
    "another epsilon": Mutant(config={"layer_norm_eps": 1e-5}),
}


def _pooled(mode: str) -> tuple[Module, ...]:
    return (transformer(MAX_TOKENS), pooling(mode, HIDDEN))


CHECKPOINTS: Mapping[str, Checkpoint] = {
    "mpnet-mean": Checkpoint(
        _body("MPNetForMaskedLM", position_ids=True),
        (*_pooled("mean_tokens"), normalize),
        # The mean of two layers hardly tells the forms of GELU apart: `mpnet-cls` does.
        mutants=changes.without(MUTANTS, "GELU by tanh")
        | {"first token pooled": changes.pooling_mutant("cls_token")},
        lengths=LENGTHS,
        max_tokens=MAX_TOKENS,
    ),
    "mpnet-cls": Checkpoint(
        _body("MPNetModel"),
        _pooled("cls_token"),
        mutants=MUTANTS | {"mean pooled": changes.pooling_mutant("mean_tokens")},
        lengths=LENGTHS,
        max_tokens=MAX_TOKENS,
    ),
}
