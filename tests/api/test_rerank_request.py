"""The rerank bodies of Cohere, Jina, Voyage, TEI and vLLM."""

from typing import Any

import pytest

from api.errors import ApiError
from api.rerank_request import QueryGroup, parse_rerank_request


def parse(**body: Any) -> Any:
    return parse_rerank_request({"query": "q", "documents": ["a", "b"]} | body, max_inputs=4)


def refused(**body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(**body)
    return caught.value


def test_strings_and_objects_may_be_mixed() -> None:
    request = parse(documents=["a", {"text": "b", "id": 7}])
    assert request.groups == [QueryGroup("q", ["a", "b"])]
    assert request.documents == [{"text": "a"}, {"text": "b", "id": 7}]


def test_rank_fields_are_joined_in_their_order() -> None:
    request = parse(documents=[{"title": "t", "body": "b"}], rank_fields=["body", "title"])
    assert request.groups[0].texts == ["b\nt"]


@pytest.mark.parametrize("document", [{"title": "t"}, {"text": 3}, {"text": None}])
def test_object_without_text_is_refused_by_place(document: dict[str, Any]) -> None:
    error = refused(documents=["a", document])
    assert (error.row.status, error.param) == (400, "documents[1]")


@pytest.mark.parametrize("document", [3, None, ["a"], True])
def test_document_of_another_type_is_refused_by_place(document: object) -> None:
    assert refused(documents=["a", document]).param == "documents[1]"


def test_no_documents_are_refused_in_coheres_words() -> None:
    assert refused(documents=[]).message == "invalid request: list of documents must not be empty"


@pytest.mark.parametrize("query", ["", "  \n"])
def test_empty_query_is_refused(query: str) -> None:
    assert refused(query=query).param == "query"


@pytest.mark.parametrize("name", ["query", "documents"])
def test_missing_field_is_named(name: str) -> None:
    error = refused(**{name: None})
    assert (error.row.code, error.param) == ("missing_required_parameter", name)


@pytest.mark.parametrize("name", ["query", "documents"])
def test_field_of_another_type_is_named(name: str) -> None:
    error = refused(**{name: 3})
    assert (error.row.code, error.param) == ("invalid_type", name)


@pytest.mark.parametrize("name", ["top_n", "top_k"])
def test_negative_limit_is_refused(name: str) -> None:
    assert refused(**{name: -1}).param == name


def test_more_documents_than_allowed_are_refused() -> None:
    assert refused(documents=["a"] * 5).param == "documents"


def test_nulls_are_the_same_as_absent() -> None:
    request = parse(top_n=None, return_documents=None, max_tokens_per_doc=None, rank_fields=None)
    assert request.fields.top_n is None
    assert request.fields.truncates


@pytest.mark.parametrize("name", ["truncation", "truncate"])
def test_documents_are_cut_unless_forbidden(name: str) -> None:
    assert not parse(**{name: False}).fields.truncates


@pytest.mark.parametrize("body", [{"raw_scores": True}, {"use_activation": False}])
def test_raw_scores_have_two_names(body: dict[str, Any]) -> None:
    assert parse(**body).fields.raw


def test_texts_ask_for_teis_answer() -> None:
    request = parse_rerank_request({"query": "q", "texts": ["a"]}, 4)
    assert (request.shape, request.groups) == ("texts", [QueryGroup("q", ["a"])])


@pytest.mark.parametrize(
    ("left", "right"),
    [("text_1", "text_2"), ("queries", "documents"), ("data_1", "data_2"), ("queries", "items")],
)
def test_score_bodies_have_many_names(left: str, right: str) -> None:
    request = parse_rerank_request({left: "q", right: ["a", "b"]}, 4)
    assert (request.shape, request.groups) == ("score", [QueryGroup("q", ["a", "b"])])


def test_as_many_queries_as_texts_are_paired_by_place() -> None:
    request = parse_rerank_request({"text_1": ["q", "r"], "text_2": ["a", "b"]}, 4)
    assert request.groups == [QueryGroup("q", ["a"]), QueryGroup("r", ["b"])]


def test_other_numbers_of_queries_are_refused() -> None:
    with pytest.raises(ApiError) as caught:
        parse_rerank_request({"text_1": ["q", "r"], "text_2": ["a", "b", "c"]}, 4)
    assert caught.value.param == "text_1"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text_1": 1, "text_2": ["a"]}, "text_1"),
        ({"queries": ["q", " "], "documents": ["a", "b"]}, "queries[1]"),
        ({"text_1": "", "text_2": ["a"]}, "text_1[0]"),
        ({"data_1": "q", "data_2": []}, "data_2"),
        ({"queries": "q", "items": ["a", 3]}, "items[1]"),
        ({"query": "q", "documents": ["a"], "truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
    ],
)
def test_errors_name_the_fields_that_were_sent(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_rerank_request(body, 4)
    assert caught.value.param == param


def test_limit_of_the_model_may_be_asked_for_by_minus_one() -> None:
    assert parse(truncation=None, truncate_prompt_tokens=-1).fields.truncates


def test_rank_fields_count_once() -> None:
    request = parse(documents=[{"a": "x"}], rank_fields=["a"] * 1000)
    assert request.groups[0].texts == ["x"]
