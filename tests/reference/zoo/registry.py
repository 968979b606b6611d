"""All groups of the zoo; each has a file of values, data/zoo-<group>.npz."""

from collections.abc import Mapping

from reference.zoo import (
    bert_kin,
    bidirectional,
    cross_encoders,
    gemma3,
    llama,
    modernbert,
    mpnet,
    poolings,
    rotary,
    token_heads,
)
from reference.zoo.checkpoint import Checkpoint

GROUPS: Mapping[str, Mapping[str, Checkpoint]] = {
    "bert-kin": bert_kin.CHECKPOINTS,
    "bidirectional": bidirectional.CHECKPOINTS,
    "cross-encoders": cross_encoders.CHECKPOINTS,
    "gemma3": gemma3.CHECKPOINTS,
    "llama": llama.CHECKPOINTS,
    "modernbert": modernbert.CHECKPOINTS,
    "mpnet": mpnet.CHECKPOINTS,
    "poolings": poolings.CHECKPOINTS,
    "rotary": rotary.CHECKPOINTS,
    "token-heads": token_heads.CHECKPOINTS,
}
