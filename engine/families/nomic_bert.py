"""NomicBERT: BERT with rotated positions and a gated MLP (arXiv:2402.01613).

config.json comes in two styles: that of the published repositories, with GPT-2's keys, and that of
transformers 5.
"""

from collections.abc import Mapping

from engine.errors import CheckpointError
from engine.families.family import Family
from engine.families.load import encoder_loader
from engine.families.names import Names, NormNames
from engine.families.rope import Rope, read_rope
from engine.families.rotary_bert import NATIVE_NAMES
from engine.families.shape import Biases, Layer, Shape, head_dim_of
from engine.settings import Config, integer, refuse, required

_PUBLISHED_NAMES = Names(
    words="embeddings.word_embeddings",
    types="embeddings.token_type_embeddings",
    embedding_norm="emb_ln",
    layer="encoder.layers.{}",
    qkv=("attn.Wqkv",),
    attention_output="attn.out_proj",
    attention_norms=NormNames(sum="norm1"),
    mlp_in=("mlp.fc12", "mlp.fc11"),
    mlp_out="mlp.fc2",
    mlp_norms=NormNames(sum="norm2"),
)

_GATES: Mapping[str, str] = {"swiglu": "silu", "geglu": "gelu"}


def _read_shape(config: Config) -> Shape:
    return _read_published(config) if "n_embd" in config else _read_native(config)


def _read_published(config: Config) -> Shape:
    for key, allowed in (
        ("prenorm", False),
        ("parallel_block", False),
        ("causal", False),
        ("use_rms_norm", False),
        ("rotary_emb_fraction", 1),
        ("rotary_emb_interleaved", False),
    ):
        refuse(config, key, allowed)
    refuse(config, "rotary_emb_scale_base")
    refuse(config, "num_experts", 0)
    activation = required(config, "activation_function")
    if activation not in _GATES:
        known = ", ".join(_GATES)
        raise CheckpointError(f"activation_function {activation!r} is not known: {known}")
    width, heads = integer(config, "n_embd"), integer(config, "n_head")
    positions = integer(config, "n_positions")
    if config.get("rotary_scaling_factor") is not None:
        # The rotation is scaled behind the trained positions: no sequence gets there.
        positions = integer(config, "max_trained_positions")
    rope = Rope(float(config.get("rotary_emb_base", 1000)))
    attention_bias = bool(config.get("qkv_proj_bias"))
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=positions,
        types=integer(config, "type_vocab_size", 0),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim_of(width, heads),
        mlp_width=integer(config, "n_inner"),
        hidden_act=_GATES[activation],
        gated=True,
        eps=required(config, "layer_norm_epsilon"),
        layers=(Layer(rope=rope),) * integer(config, "n_layer"),
        biases=Biases(
            qkv=attention_bias,
            attention_output=attention_bias,
            mlp_in=bool(config.get("mlp_fc1_bias")),
            mlp_out=bool(config.get("mlp_fc2_bias")),
            norm=True,
        ),
    )


def _read_native(config: Config) -> Shape:
    width, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    rope = read_rope(config, default_theta=1000.0)
    return Shape(
        vocabulary=integer(config, "vocab_size"),
        max_positions=integer(config, "max_position_embeddings"),
        types=integer(config, "type_vocab_size", 2),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=integer(config, "head_dim", 0) or head_dim_of(width, heads),
        mlp_width=integer(config, "intermediate_size"),
        hidden_act=required(config, "hidden_act"),
        gated=True,
        eps=required(config, "layer_norm_eps"),
        layers=(Layer(rope=rope),) * integer(config, "num_hidden_layers"),
        biases=Biases(norm=True),
    )


NOMIC_BERT = Family(
    prefixes=("nomic_bert.", "bert."),
    load_encoder=encoder_loader(_read_shape, _PUBLISHED_NAMES, NATIVE_NAMES),
    unused=("pooler.",),
    unused_of={"NomicBertForPreTraining": ("cls.",)},
)
