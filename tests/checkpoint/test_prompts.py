from collections.abc import Mapping

import pytest

from checkpoint.errors import UnknownPrompt
from checkpoint.known_models import known_model
from checkpoint.prompts import (
    USES,
    PromptChoice,
    prompt_of,
    split_use,
    templated_query,
    use_names,
)
from checkpoint.rerank_template import QWEN3_RERANKER
from checkpoint.spec import ModelSpec, Task

E5 = {"query": "query: ", "passage": "passage: "}
ALIASES = [alias for names in USES.values() for alias in names]


def spec(
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
    task: Task = "embed",
    template: str | None = None,
) -> ModelSpec:
    return ModelSpec(
        id="org/m",
        task=task,
        family="bert",
        dim=4,
        max_tokens=8,
        max_tokens_source="the test",
        vocab_size=10,
        tokenizer_sha256="",
        revision="",
        aliases=("m",),
        prompts=prompts or {},
        default_prompt=default_prompt,
        template=template,
        instruction="judge" if template else None,
    )


def known(name: str) -> ModelSpec:
    model = known_model(name)
    assert model is not None
    return spec(model.prompts)


# Precedence


@pytest.mark.parametrize(
    ("choice", "prompt"),
    [
        (PromptChoice(), "passage: "),
        (PromptChoice(use="query"), "query: "),
        (PromptChoice(use="query", prompt_name="passage"), "passage: "),
        (PromptChoice(use="query", prompt_name="passage", prompt="own "), "own "),
        (PromptChoice(use="query", prompt_name="query", prompt=""), ""),
    ],
)
def test_nearer_words_overrule_the_others(choice: PromptChoice, prompt: str) -> None:
    assert prompt_of(spec(E5, default_prompt="passage"), choice) == prompt


def test_model_without_a_default_puts_nothing_before_a_text() -> None:
    assert prompt_of(spec(E5)) == ""
    assert prompt_of(spec()) == ""


# Vendors' words


@pytest.mark.parametrize("word", ["query", "search_query", "retrieval.query", "RETRIEVAL_QUERY"])
def test_each_vendor_has_its_word_for_a_query(word: str) -> None:
    assert prompt_of(spec(E5), PromptChoice(use=word)) == "query: "


@pytest.mark.parametrize(
    "word",
    ["document", "passage", "search_document", "retrieval.passage", "RETRIEVAL_DOCUMENT"],
)
@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_each_vendor_has_its_word_for_a_document(word: str, name: str) -> None:
    prompts = {"query": "q ", name: "d "}
    assert prompt_of(spec(prompts), PromptChoice(use=word)) == "d "


def test_document_is_named_as_sentence_transformers_looks_for_it() -> None:
    prompts = {"corpus": "c ", "passage": "p ", "document": "d "}
    assert prompt_of(spec(prompts), PromptChoice(use="search_document")) == "d "


@pytest.mark.parametrize(
    ("word", "prompt"),
    [
        ("search_query", "task: search result | query: "),
        ("search_document", "title: none | text: "),
        ("classification", "task: classification | query: "),
        ("clustering", "task: clustering | query: "),
        ("SEMANTIC_SIMILARITY", "task: sentence similarity | query: "),
        ("text-matching", "task: sentence similarity | query: "),
        ("QUESTION_ANSWERING", "task: question answering | query: "),
        ("FACT_VERIFICATION", "task: fact checking | query: "),
        ("CODE_RETRIEVAL_QUERY", "task: code retrieval | query: "),
        ("code.passage", "title: none | text: "),
    ],
)
def test_every_use_of_gemini_and_jina_reaches_embeddinggemma(word: str, prompt: str) -> None:
    assert prompt_of(known("google/embeddinggemma-300m"), PromptChoice(use=word)) == prompt


def test_use_that_is_a_kind_of_query_falls_back_to_it() -> None:
    for word in ("QUESTION_ANSWERING", "FACT_VERIFICATION", "code.query"):
        assert prompt_of(spec(E5), PromptChoice(use=word)) == "query: "


def test_word_of_the_models_own_needs_no_vendor() -> None:
    own = spec({"Web-Search": "w ", "query": "q "})
    assert prompt_of(own, PromptChoice(use="web-search")) == "w "


@pytest.mark.parametrize("word", ALIASES)
def test_known_word_to_a_model_without_prompts_changes_nothing(word: str) -> None:
    assert prompt_of(spec(), PromptChoice(use=word)) == ""


def test_use_that_the_model_has_no_prompt_for_gives_none() -> None:
    """Not the default either: a document must not be told that it is a query."""
    asymmetric = spec({"query": "q "}, default_prompt="query")
    assert prompt_of(asymmetric, PromptChoice(use="document")) == ""
    assert prompt_of(asymmetric, PromptChoice(use="clustering")) == ""


def test_unknown_use_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(UnknownPrompt) as caught:
        prompt_of(spec({"web": "w "}), PromptChoice(use="serch_query"))
    assert caught.value.field == "use"
    assert caught.value.choices == ("web", *ALIASES)
    assert "search_query" in str(caught.value)


def test_unknown_name_is_refused_with_the_models_own() -> None:
    with pytest.raises(UnknownPrompt) as caught:
        prompt_of(spec(E5), PromptChoice(prompt_name="Query"))
    assert (caught.value.field, caught.value.choices) == ("prompt_name", ("query", "passage"))
    with pytest.raises(UnknownPrompt, match="this model has none"):
        prompt_of(spec(), PromptChoice(prompt_name="secret"))


def test_query_and_document_are_names_that_every_model_has() -> None:
    assert prompt_of(spec(E5), PromptChoice(prompt_name="document")) == "passage: "
    assert prompt_of(spec(), PromptChoice(prompt_name="query")) == ""


def test_errors_do_not_repeat_what_was_asked() -> None:
    for choice in (
        PromptChoice(use="secret"),
        PromptChoice(prompt_name="secret"),
        PromptChoice(instruction="secret"),
    ):
        with pytest.raises(UnknownPrompt) as caught:
            prompt_of(spec(E5), choice)
        assert "secret" not in str(caught.value)


# Instructions


@pytest.mark.parametrize(
    ("model", "prompt"),
    [
        ("Qwen/Qwen3-Embedding-0.6B", "Instruct: {}\nQuery:"),
        ("intfloat/multilingual-e5-large-instruct", "Instruct: {}\nQuery: "),
        ("google/embeddinggemma-300m", "task: {} | query: "),
    ],
)
@pytest.mark.parametrize("task", ["Find the law", "two\nlines: {query} \\1 | query: ", ""])
def test_instruction_takes_the_place_of_the_task(model: str, prompt: str, task: str) -> None:
    for use in (None, "search_query"):
        choice = PromptChoice(use=use, instruction=task)
        assert prompt_of(known(model), choice) == prompt.format(task)


def test_document_of_a_model_with_instructions_has_none() -> None:
    choice = PromptChoice(use="document", instruction="Find the law")
    assert prompt_of(known("Qwen/Qwen3-Embedding-0.6B"), choice) == ""


def test_own_prompt_overrules_an_instruction() -> None:
    choice = PromptChoice(prompt="own ", instruction="Find the law")
    assert prompt_of(known("Qwen/Qwen3-Embedding-0.6B"), choice) == "own "


@pytest.mark.parametrize("use", [None, "query", "document"])
def test_instruction_to_a_model_that_takes_none_is_refused(use: str | None) -> None:
    with pytest.raises(UnknownPrompt) as caught:
        prompt_of(spec(E5), PromptChoice(use=use, instruction="Find the law"))
    assert caught.value.field == "instruction"


def test_reranker_is_asked_with_its_own_instruction_or_the_requests() -> None:
    model = spec(task="score", template=QWEN3_RERANKER.text)
    assert templated_query(model, "fox").instruction == "judge"
    asked = templated_query(model, "fox", "Find the law")
    assert (asked.template, asked.instruction, asked.query) == (
        QWEN3_RERANKER.text,
        "Find the law",
        "fox",
    )
    with pytest.raises(ValueError, match="no template"):
        templated_query(spec(task="score"), "fox")


# Names that say the use


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("m", ("m", None)),
        ("m-query", ("m", "query")),
        ("m-document", ("m", "document")),
        ("m-passage", ("m", "document")),
        ("org/m-query", ("org/m", "query")),
        ("other-query", ("other-query", None)),
        ("n-query", ("n-query", None)),
        ("n-query-query", ("n-query", "query")),
        ("-query", ("-query", None)),
        ("nothing", ("nothing", None)),
    ],
)
def test_end_of_a_name_says_the_use(name: str, meant: tuple[str, str | None]) -> None:
    served = {"m", "org/m", "n", "n-query"}
    assert split_use(name, served) == meant


def test_names_of_uses_are_those_that_are_understood() -> None:
    model = spec(E5)
    assert use_names(model) == ("org/m-query", "org/m-document", "m-query", "m-document")
    for name in use_names(model):
        base, use = split_use(name, {model.id, *model.aliases})
        assert base in (model.id, *model.aliases)
        assert prompt_of(model, PromptChoice(use=use)) in E5.values()
    assert use_names(spec()) == use_names(spec({"query": ""})) == ()
    assert use_names(spec(E5, task="score")) == ()
