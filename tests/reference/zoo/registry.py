"""All groups of the zoo; each has a file of values, data/zoo-<group>.npz."""

from collections.abc import Mapping

from reference.zoo import bert_kin, bidirectional, gemma3, llama, modernbert, mpnet, rotary
from reference.zoo.checkpoint import Checkpoint

GROUPS: Mapping[str, Mapping[str, Checkpoint]] = {
    "bert-kin": bert_kin.CHECKPOINTS,
    "bidirectional": bidirectional.CHECKPOINTS,
    "gemma3": gemma3.CHECKPOINTS,
    "llama": llama.CHECKPOINTS,
    "modernbert": modernbert.CHECKPOINTS,
    "mpnet": mpnet.CHECKPOINTS,
    "rotary": rotary.CHECKPOINTS,
}
