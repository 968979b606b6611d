"""What BERTs with rotated positions and a gated MLP have in common, as transformers names it."""

from engine.families.names import Names, NormNames

NATIVE_NAMES = Names(
    words="embeddings.word_embeddings",
    types="embeddings.token_type_embeddings",
    embedding_norm="embeddings.LayerNorm",
    layer="layers.{}",
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    attention_output="self_attn.o_proj",
    attention_norms=NormNames(sum="post_attention_layernorm"),
    mlp_in=("mlp.gate_proj", "mlp.up_proj"),
    mlp_out="mlp.down_proj",
    mlp_norms=NormNames(sum="post_mlp_layernorm"),
)
