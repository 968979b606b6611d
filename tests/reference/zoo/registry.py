"""All groups of the zoo; each has a file of values, data/zoo-<group>.npz."""

from collections.abc import Mapping

from reference.zoo import bidirectional, llama, modernbert
from reference.zoo.checkpoint import Checkpoint

GROUPS: Mapping[str, Mapping[str, Checkpoint]] = {
    "bidirectional": bidirectional.CHECKPOINTS,
    "llama": llama.CHECKPOINTS,
    "modernbert": modernbert.CHECKPOINTS,
}
