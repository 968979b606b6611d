"""Which heads a checkpoint has: what its class, its modules and its files say that it answers."""

from collections.abc import Mapping, Sequence

from checkpoint.spec import ModelFiles, ModelSpec, Module
from engine.batch import Kind
from engine.errors import CheckpointError, EngineError
from engine.families.family import Family
from engine.heads.head import Backbone, Head
from engine.heads.lexical import load_lexical_head
from engine.heads.pooled import PooledHead
from engine.heads.scores import load_yes_no_head
from engine.heads.splade import load_splade_head
from engine.heads.tokens import TokenHead, load_multi_vector_head
from engine.modules import Feature, load_modules
from engine.pooling import POOLINGS


def load_heads(
    spec: ModelSpec, files: ModelFiles, family: Family, backbone: Backbone
) -> Mapping[Kind, Head]:
    """A head for each kind that the model serves.

    Raises CheckpointError for a module that is unknown or in a place where it means something else.
    """
    kinds = [module.kind for module in files.modules]
    if kinds[:1] not in (["Transformer"], ["MLMTransformer"]):
        raise CheckpointError(f"modules.json starts {kinds[:1]}, not with a Transformer")
    after = files.modules[1:]
    if spec.task == "score":
        return {"score": _load_score_head(spec, after, family, backbone)}
    if spec.pooling == "tokens":
        return {"tokens": _load_token_head(spec, after, backbone)}
    if spec.pooling == "sparse":
        return {"sparse": _load_sparse_head(spec, after, family, backbone)}
    heads: dict[Kind, Head] = {"embed": _load_embedding_head(spec, after, backbone)}
    if spec.family == "roberta":
        heads |= _load_heads_beside(files, backbone)
    return heads


def _load_score_head(
    spec: ModelSpec, modules: Sequence[Module], family: Family, backbone: Backbone
) -> Head:
    kinds = [module.kind for module in modules]
    if spec.score_tokens is not None and kinds in ([], ["LogitScore"]):
        return load_yes_no_head(backbone, spec.score_tokens)
    if kinds[:1] == ["Pooling"]:
        return _load_pooled_head(spec, modules, backbone, writes="scores")
    if kinds:
        raise CheckpointError(f"module {kinds[0]!r} is not known in a scoring model")
    if family.load_score_head is None:
        raise EngineError(f"{spec.id}: family {spec.family!r} has no head for scores")
    return family.load_score_head(backbone)


def _load_embedding_head(
    spec: ModelSpec, modules: Sequence[Module], backbone: Backbone
) -> PooledHead:
    return _load_pooled_head(spec, _without_last(spec, modules), backbone, "sentence_embedding")


def _load_pooled_head(
    spec: ModelSpec, modules: Sequence[Module], backbone: Backbone, writes: str
) -> PooledHead:
    if [module.kind for module in modules][:1] != ["Pooling"]:
        raise CheckpointError(f"{spec.id}: modules.json has no Pooling after the Transformer")
    pooling = spec.pooling
    if pooling is None or pooling not in POOLINGS:
        known = ", ".join(POOLINGS)
        raise EngineError(f"{spec.id}: pooling {pooling!r} is not known: {known}")
    reads = Feature("sentence_embedding", backbone.width, backbone.kernels.place)
    layers, width = load_modules(modules[1:], reads, writes)
    _check_width(spec, width)
    return PooledHead(backbone.kernels.pool, pooling, layers)


def _load_token_head(spec: ModelSpec, modules: Sequence[Module], backbone: Backbone) -> TokenHead:
    # A mask says which rows a search compares; here each token has one.
    modules = [module for module in modules if module.kind != "MultiVectorMask"]
    reads = Feature("token_embeddings", backbone.width, backbone.kernels.place)
    layers, width = load_modules(_without_last(spec, modules), reads, reads.name)
    _check_width(spec, width)
    return TokenHead(layers)


def _load_sparse_head(
    spec: ModelSpec, modules: Sequence[Module], family: Family, backbone: Backbone
) -> Head:
    kinds = [module.kind for module in modules]
    if kinds not in ([], ["SpladePooling"]):
        raise CheckpointError(f"modules {kinds} are not known in a sparse model: SpladePooling")
    if family.mlm_head is None:
        raise EngineError(f"{spec.id}: family {spec.family!r} has no masked LM's head")
    return load_splade_head(backbone, family.mlm_head, modules[0] if modules else None)


def _load_heads_beside(files: ModelFiles, backbone: Backbone) -> dict[Kind, Head]:
    """bge-m3's, which modules.json does not name. Its own files are pickles and never read."""
    heads: dict[Kind, Head] = {}
    lexical = files.directory / "sparse_linear.safetensors"
    multi_vector = files.directory / "colbert_linear.safetensors"
    if lexical.is_file():
        heads["sparse"] = load_lexical_head(backbone, lexical)
    if multi_vector.is_file():
        heads["tokens"] = load_multi_vector_head(backbone, multi_vector)
    return heads


def _without_last(spec: ModelSpec, modules: Sequence[Module]) -> Sequence[Module]:
    """The modules that are not the gateway's: a final Normalize, and the model's quantizer."""
    if spec.quantizer is not None and modules and modules[-1].kind == "FlexibleQuantizer":
        modules = modules[:-1]
    return modules[:-1] if modules and modules[-1].kind == "Normalize" else modules


def _check_width(spec: ModelSpec, width: int) -> None:
    if width != spec.dim:
        raise CheckpointError(f"{spec.id}: the modules give {width} dimensions, not {spec.dim}")
