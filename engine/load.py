"""From a checkpoint's files to layers and heads, on the device that was settled."""

from checkpoint.spec import ModelFiles, ModelSpec
from engine.errors import EngineError
from engine.families import FAMILIES
from engine.heads.head import Backbone
from engine.heads.load import load_heads
from engine.kernels import Kernels
from engine.runner import Model
from engine.weights import Weights


def load_model(spec: ModelSpec, files: ModelFiles, kernels: Kernels) -> Model:
    """Read the weights. Raises EngineError (CheckpointError where the files are at fault)."""
    if spec.family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise EngineError(f"{spec.id}: family {spec.family!r} is not known: {known}")
    family = FAMILIES[spec.family]
    weights = Weights(files.weights, family.prefixes, kernels.place)
    encoder = family.load_encoder(files.config, weights, kernels)
    width = encoder.embeddings.words.size(1)
    backbone = Backbone(files.config, weights, kernels, width)
    heads = load_heads(spec, files, family, backbone)
    for prefix in family.leftovers(files.config):
        weights.ignore(prefix)
    weights.finish()
    return Model(encoder, heads)
