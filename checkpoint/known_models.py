"""Models by name: which family each is of, the prompts it was trained with, and how it is tested.

Two uses. A repository that came without prompts, Matryoshka sizes, or a word on causality is
completed from here, found by the last element of its id. And docs/models.md is made of this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from checkpoint.rerank_template import QWEN3_RERANKER, RerankTemplate
from checkpoint.spec import Pooling

WEIGHTS = "weights"  # tested with the model's own; other tests are sharp checkpoints of its layout

PoolingOrScore = Pooling | Literal["score"]


@dataclass(frozen=True)
class KnownModel:
    id: str  # on the hub
    family: str
    pooling: PoolingOrScore
    max_tokens: int  # what its files ask for, within its positions
    tested: tuple[str, ...]  # WEIGHTS, or names of checkpoints below tests/reference
    prompts: Mapping[str, str] = field(default_factory=dict)
    matryoshka: tuple[int, ...] = ()

    @property
    def template(self) -> RerankTemplate | None:
        return template_of(self.id)


def known_model(model_id: str) -> KnownModel | None:
    """By the last element of an id or a directory, in any case."""
    return _BY_NAME.get(_name(model_id))


def template_of(model_id: str) -> RerankTemplate | None:
    """Of a reranker, or of a fork of one that carries its name."""
    prefix = QWEN3_RERANKER.models.removesuffix("*")
    return QWEN3_RERANKER if _name(model_id).startswith(prefix) else None


def _name(model_id: str) -> str:
    return model_id.rpartition("/")[2].lower()


# Prompts, each from the model card of the models below that use it.

_NONE: Mapping[str, str] = {}
_E5 = {"query": "query: ", "passage": "passage: "}
_SEARCH = {"query": "Represent this sentence for searching relevant passages: "}
_BGE_ZH = {"query": "为这个句子生成表示以用于检索相关文章："}
_ARCTIC_2 = {"query": "query: "}
_NOMIC = {
    "query": "search_query: ",
    "document": "search_document: ",
    "classification": "classification: ",
    "clustering": "clustering: ",
}
_CODE_RANK = {"query": "Represent this query for searching relevant code: "}
_TASK = "Given a web search query, retrieve relevant passages that answer the query"
_INSTRUCT = {"query": f"Instruct: {_TASK}\nQuery: "}  # e5-instruct, SFR, gte-Qwen2, nemotron
_QWEN3 = {"query": f"Instruct: {_TASK}\nQuery:", "document": ""}  # no space behind the colon
_GEMMA_TASKS = {
    "query": "search result",
    "question answering": "question answering",
    "fact checking": "fact checking",
    "code retrieval": "code retrieval",
    "classification": "classification",
    "clustering": "clustering",
    "sentence similarity": "sentence similarity",
}
_GEMMA = {name: f"task: {task} | query: " for name, task in _GEMMA_TASKS.items()}
_GEMMA["document"] = "title: none | text: "

_HALVES = (1024, 768, 512, 256, 128, 64, 32)


def _bert(
    hub_id: str, pooling: Pooling, max_tokens: int = 512, prompts: Mapping[str, str] = _NONE
) -> KnownModel:
    tests = {"cls": "bert-cls", "mean": "bert-mean-dense"}
    return KnownModel(hub_id, "bert", pooling, max_tokens, (tests[pooling],), prompts)


def _roberta(
    hub_id: str, pooling: Pooling, max_tokens: int = 512, prompts: Mapping[str, str] = _NONE
) -> KnownModel:
    tests = {"cls": "xlm-roberta-cls-dense", "mean": "xlm-roberta-mean"}
    return KnownModel(hub_id, "roberta", pooling, max_tokens, (tests[pooling],), prompts)


def _reranker(hub_id: str, family: str, max_tokens: int, test: str) -> KnownModel:
    return KnownModel(hub_id, family, "score", max_tokens, (test,))


_SENTENCE_TRANSFORMERS = (
    KnownModel("sentence-transformers/all-MiniLM-L6-v2", "bert", "mean", 256, (WEIGHTS,)),
    _bert("sentence-transformers/all-MiniLM-L12-v2", "mean", 128),
    _bert("sentence-transformers/multi-qa-MiniLM-L6-cos-v1", "mean"),
    _bert("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "mean", 128),
    _roberta("sentence-transformers/paraphrase-multilingual-mpnet-base-v2", "mean", 128),
    KnownModel("sentence-transformers/all-mpnet-base-v2", "mpnet", "mean", 384, ("mpnet-mean",)),
    KnownModel(
        "sentence-transformers/multi-qa-mpnet-base-dot-v1", "mpnet", "cls", 512, ("mpnet-cls",)
    ),
    KnownModel(
        "sentence-transformers/distiluse-base-multilingual-cased-v2",
        "distilbert",
        "mean",
        128,
        ("distilbert-mean", "bert-dense-dense"),
    ),
)
_E5_MODELS = (
    *(_bert(f"intfloat/e5-{size}", "mean", prompts=_E5) for size in ("small", "base", "large")),
    *(_bert(f"intfloat/e5-{size}-v2", "mean", prompts=_E5) for size in ("small", "base", "large")),
    KnownModel("intfloat/multilingual-e5-small", "bert", "mean", 512, (WEIGHTS,), prompts=_E5),
    _roberta("intfloat/multilingual-e5-base", "mean", prompts=_E5),
    _roberta("intfloat/multilingual-e5-large", "mean", prompts=_E5),
    _roberta("intfloat/multilingual-e5-large-instruct", "mean", prompts=_INSTRUCT),
)
_BGE_MODELS = (
    *(
        _bert(f"BAAI/bge-{size}-en-v1.5", "cls", prompts=_SEARCH)
        for size in ("small", "base", "large")
    ),
    *(
        _bert(f"BAAI/bge-{size}-zh-v1.5", "cls", prompts=_BGE_ZH)
        for size in ("small", "base", "large")
    ),
    KnownModel(
        "BAAI/bge-m3",
        "roberta",
        "cls",
        8192,
        ("xlm-roberta-cls-dense", "bge-m3-lexical", "bge-m3-multi-vectors"),
    ),
)
_OTHER_ENCODERS = (
    *(_bert(f"thenlper/gte-{size}", "mean") for size in ("small", "base", "large")),
    KnownModel(
        "mixedbread-ai/mxbai-embed-large-v1",
        "bert",
        "cls",
        512,
        ("bert-cls",),
        _SEARCH,
        (1024, 512, 256, 128, 64),
    ),
    *(
        _bert(f"Snowflake/snowflake-arctic-embed-{size}", "cls", prompts=_SEARCH)
        for size in ("xs", "s", "m", "l")
    ),
    KnownModel(
        "Snowflake/snowflake-arctic-embed-m-v1.5",
        "bert",
        "cls",
        512,
        ("bert-cls",),
        _SEARCH,
        (768, 256),
    ),
    KnownModel(
        "Snowflake/snowflake-arctic-embed-m-long",
        "nomic_bert",
        "cls",
        2048,
        ("nomic-native-cls",),
        _SEARCH,
    ),
    KnownModel(
        "Snowflake/snowflake-arctic-embed-m-v2.0",
        "new",
        "cls",
        8192,
        ("gte-native-cls",),
        _ARCTIC_2,
        (768, 256),
    ),
    KnownModel(
        "Snowflake/snowflake-arctic-embed-l-v2.0",
        "roberta",
        "cls",
        8192,
        ("xlm-roberta-cls-dense",),
        _ARCTIC_2,
        (1024, 256),
    ),
    *(
        KnownModel(
            f"nomic-ai/nomic-embed-text-{version}",
            "nomic_bert",
            "mean",
            2048,
            ("nomic-mean",),
            _NOMIC,
            sizes,
        )
        for version, sizes in (("v1", ()), ("v1.5", (768, 512, 256, 128, 64)))
    ),
    KnownModel(
        "nomic-ai/CodeRankEmbed", "nomic_bert", "cls", 2048, ("nomic-native-cls",), _CODE_RANK
    ),
    KnownModel(
        "nomic-ai/modernbert-embed-base",
        "modernbert",
        "mean",
        8192,
        ("modernbert-mean",),
        _NOMIC,
        (768, 256),
    ),
    KnownModel("Alibaba-NLP/gte-modernbert-base", "modernbert", "cls", 8192, ("modernbert-cls",)),
    KnownModel(
        "ibm-granite/granite-embedding-english-r2",
        "modernbert",
        "cls",
        8192,
        ("modernbert-cls",),
    ),
    KnownModel("Alibaba-NLP/gte-multilingual-base", "new", "cls", 8192, ("new-cls",)),
    KnownModel("Alibaba-NLP/gte-base-en-v1.5", "new", "cls", 8192, ("new-untyped-cls",)),
    KnownModel("Alibaba-NLP/gte-large-en-v1.5", "new", "cls", 8192, ("new-untyped-cls",)),
)
_DECODERS = (
    *(
        KnownModel(
            f"Qwen/Qwen3-Embedding-{size}",
            "llama",
            "last_token",
            32768,
            ("qwen3-last",),
            _QWEN3,
            (dim, *(half for half in _HALVES if half < dim)),
        )
        for size, dim in (("0.6B", 1024), ("4B", 2560), ("8B", 4096))
    ),
    KnownModel(
        "intfloat/e5-mistral-7b-instruct",
        "llama",
        "last_token",
        4096,
        ("mistral-last",),
        _INSTRUCT,
    ),
    KnownModel(
        "Salesforce/SFR-Embedding-Mistral",
        "llama",
        "last_token",
        4096,
        ("mistral-last",),
        _INSTRUCT,
    ),
    *(
        KnownModel(
            f"Alibaba-NLP/gte-Qwen2-{size}-instruct",
            "llama_bidirectional",
            "last_token",
            32768,
            ("gte-qwen2-last",),
            _INSTRUCT,
        )
        for size in ("1.5B", "7B")
    ),
    KnownModel(
        "nvidia/llama-embed-nemotron-8b",
        "llama_bidirectional",
        "mean",
        32768,
        ("llama-bidirectional-mean",),
        _INSTRUCT,
    ),
    *(
        KnownModel(
            f"perplexity-ai/pplx-embed-{version}",
            "llama_bidirectional",
            "mean",
            32768,
            ("pplx-mean",),
        )
        for version in ("v1-0.6b", "v1-4b")
    ),
    KnownModel(
        "google/embeddinggemma-300m",
        "gemma3",
        "mean",
        2048,
        ("gemma3-mean-dense",),
        _GEMMA,
        (768, 512, 256, 128),
    ),
)
_RERANKERS = (
    *(
        _reranker(f"cross-encoder/ms-marco-MiniLM-L{layers}-v2", "bert", 512, "bert-scores")
        for layers in (4, 6, 12)
    ),
    _reranker("BAAI/bge-reranker-base", "roberta", 512, "xlm-roberta-scores"),
    _reranker("BAAI/bge-reranker-large", "roberta", 512, "xlm-roberta-scores"),
    _reranker("BAAI/bge-reranker-v2-m3", "roberta", 8192, "xlm-roberta-scores"),
    _reranker("Alibaba-NLP/gte-multilingual-reranker-base", "new", 8192, "new-scores"),
    _reranker(
        "Alibaba-NLP/gte-reranker-modernbert-base", "modernbert", 8192, "modernbert-scores-mean"
    ),
    *(
        _reranker(f"Qwen/Qwen3-Reranker-{size}", "llama", 40960, "qwen3-yes-no")
        for size in ("0.6B", "4B", "8B")
    ),
    *(
        _reranker(f"tomaarsen/Qwen3-Reranker-{size}-seq-cls", "llama", 40960, "qwen3-scores")
        for size in ("0.6B", "4B", "8B")
    ),
)

KNOWN_MODELS: tuple[KnownModel, ...] = (
    *_SENTENCE_TRANSFORMERS,
    *_E5_MODELS,
    *_BGE_MODELS,
    *_OTHER_ENCODERS,
    *_DECODERS,
    *_RERANKERS,
)
_BY_NAME: Mapping[str, KnownModel] = {_name(model.id): model for model in KNOWN_MODELS}
