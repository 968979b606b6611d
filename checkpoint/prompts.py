"""Which text stands before an input: what a request asks for, in the words of any vendor."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from checkpoint.errors import UnknownPrompt
from checkpoint.rerank_template import TemplatedQuery
from checkpoint.spec import ModelSpec


@dataclass(frozen=True)
class PromptChoice:
    """What a request says; None: nothing. An earlier field overrules the later ones."""

    prompt: str | None = None  # the text itself
    prompt_name: str | None = None  # one of the model's prompts
    use: str | None = None  # input_type, task, task_type, or the end of an alias
    instruction: str | None = None  # the task, in words, for models that take one


NO_CHOICE = PromptChoice()

# What each use is called by Cohere, Voyage, NVIDIA, Jina and Gemini, in lower case.
USES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_query", "retrieval.query", "retrieval_query"),
    "document": (
        "document",
        "passage",
        "search_document",
        "retrieval.passage",
        "retrieval_document",
    ),
    "classification": ("classification",),
    "clustering": ("clustering", "separation"),
    "similarity": ("text-matching", "semantic_similarity"),
    "question": ("question_answering",),
    "fact": ("fact_verification",),
    "code": ("code.query", "code_retrieval_query"),
    "code document": ("code.passage",),
}
# The prompts that serve a use, in lower case; the first that a model has. Those of `query` and
# `document` begin as in sentence-transformers' encode_query and encode_document.
PROMPTS_OF: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_query", "retrieval.query", "retrieval-query", "s2p_query"),
    "document": (
        "document",
        "passage",
        "corpus",
        "search_document",
        "retrieval.passage",
        "retrieval-document",
    ),
    "classification": ("classification",),
    "clustering": ("clustering", "separation"),
    "similarity": ("sentence similarity", "similarity", "sts", "text-matching", "s2s_query"),
    "question": ("question answering", "query"),
    "fact": ("fact checking", "query"),
    "code": ("code retrieval", "code.query", "query"),
    "code document": ("code.passage", "document", "passage", "corpus"),
}
_USE_OF: Mapping[str, str] = {alias: use for use, names in USES.items() for alias in names}

# How models that were trained with a task in words write it into a query's prompt.
_FORMS = (
    re.compile(r"(Instruct: )(.*?)(\nQuery: ?)", re.DOTALL),  # E5-instruct, Qwen3-Embedding
    re.compile(r"(task: )(.*?)( \| query: )", re.DOTALL),  # EmbeddingGemma
)

_ENDS: Mapping[str, str] = {"-query": "query", "-document": "document", "-passage": "document"}


def prompt_of(spec: ModelSpec, choice: PromptChoice = NO_CHOICE) -> str:
    """The text to put before each input; empty where the model has no prompt for it.

    prompt > prompt_name > use > the model's default. A use that the model has no prompt for gives
    none, as with sentence-transformers' encode_query, since clients send one to every model.
    `instruction` takes the place of the task within the prompt, of a query where nothing else is
    said. Raises UnknownPrompt.
    """
    if choice.prompt is not None:
        return choice.prompt
    if choice.prompt_name is not None:
        chosen = _named(spec, choice.prompt_name)
    elif choice.use is not None:
        chosen = _used(spec, choice.use)
    elif choice.instruction is not None:
        chosen = _first(spec, "query")
    else:
        return spec.prompts[spec.default_prompt] if spec.default_prompt else ""
    return chosen if choice.instruction is None else _instructed(spec, chosen, choice.instruction)


def templated_query(spec: ModelSpec, query: str, instruction: str | None = None) -> TemplatedQuery:
    """What an LLM reranker is asked with; `spec` has a template."""
    if spec.template is None:
        raise ValueError(f"{spec.id} has no template")
    return TemplatedQuery(spec.template, instruction or spec.instruction or "", query)


def split_use(name: str, served: Collection[str]) -> tuple[str, str | None]:
    """The model and the use that a requested name means, among the names that are served.

    `m-query`, `m-document` and `m-passage` are `m` with that use, for clients that can name nothing
    but a model. A model that is really called so comes first; an unknown name comes back as it is.
    """
    if name not in served:
        for end, use in _ENDS.items():
            if name.endswith(end) and name.removesuffix(end) in served:
                return name.removesuffix(end), use
    return name, None


def use_names(spec: ModelSpec) -> tuple[str, ...]:
    """The names besides its own under which `split_use` finds an embedding model with prompts."""
    if spec.task != "embed" or not any(spec.prompts.values()):
        return ()
    return tuple(
        f"{name}-{use}" for name in (spec.id, *spec.aliases) for use in ("query", "document")
    )


def _named(spec: ModelSpec, name: str) -> str:
    if name in spec.prompts:
        return spec.prompts[name]
    if name in ("query", "document"):  # sentence-transformers has these two for every model
        return _first(spec, name)
    raise UnknownPrompt("prompt_name", spec.prompts)


def _used(spec: ModelSpec, name: str) -> str:
    lowered = name.lower()
    own = {prompt.lower(): text for prompt, text in spec.prompts.items()}
    if lowered in own:
        return own[lowered]
    if lowered not in _USE_OF:
        raise UnknownPrompt("use", dict.fromkeys([*spec.prompts, *_USE_OF]))
    return _first(spec, _USE_OF[lowered])


def _first(spec: ModelSpec, use: str) -> str:
    own = {prompt.lower(): text for prompt, text in spec.prompts.items()}
    return next((own[name] for name in PROMPTS_OF[use] if name in own), "")


def _instructed(spec: ModelSpec, prompt: str, instruction: str) -> str:
    """The prompt with its task replaced. Documents of such a model have none, and stay bare."""
    filled = _fill(prompt, instruction)
    if filled is not None:
        return filled
    if any(_fill(other, "") is not None for other in spec.prompts.values()):
        return prompt
    raise UnknownPrompt("instruction", ())


def _fill(prompt: str, instruction: str) -> str | None:
    for form in _FORMS:
        match = form.fullmatch(prompt)
        if match:
            return match[1] + instruction + match[3]
    return None
