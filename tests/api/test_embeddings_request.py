"""The four shapes of `input`, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.embeddings_request import parse_embeddings_request, parse_input
from api.errors import ApiError


def refused(body: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_embeddings_request(body, max_inputs=4)
    return caught.value


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_list_of_strings_is_taken_as_it_is(texts: list[str]) -> None:
    assert parse_input(texts, 4) == (texts, None)


@given(st.text())
def test_bare_string_is_one_input(text: str) -> None:
    assert parse_input(text, 4) == ([text], None)


@given(st.lists(st.integers(), min_size=1, max_size=50))
def test_flat_list_of_ids_is_one_input_however_long(ids: list[int]) -> None:
    assert parse_input(ids, 4) == (None, [ids])


@given(st.lists(st.lists(st.integers(), max_size=5), min_size=1, max_size=4))
def test_list_of_lists_of_ids_is_many_inputs(ids: list[list[int]]) -> None:
    assert parse_input(ids, 4) == (None, ids)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (["a", 1], "input[1]"),
        (["a", None], "input[1]"),
        ([[1], "a"], "input[1]"),
        ([1, "a"], "input[0]"),
        ([1, True], "input[0]"),
        ([[1, False]], "input[0]"),
        ([[1.5]], "input[0]"),
        ([{"text": "a"}], "input[0]"),
        ([True], "input[0]"),
        ([], "input"),
        (7, "input"),
        ({"a": 1}, "input"),
        (["a"] * 5, "input"),
        ([[1]] * 5, "input"),
    ],
)
def test_other_shapes_are_refused_and_the_place_is_named(value: object, param: str) -> None:
    error = refused({"model": "m", "input": value})
    assert (error.row.status, error.param) == (400, param)
    assert "'$.input' is invalid" in error.message


@pytest.mark.parametrize("body", [{"model": "m"}, {"model": "m", "input": None}])
def test_missing_input_is_named(body: dict[str, Any]) -> None:
    error = refused(body)
    assert (error.row.code, error.param) == ("missing_required_parameter", "input")
    assert error.message == "Missing required parameter: 'input'."


@pytest.mark.parametrize("body", [{"input": "a"}, {"input": "a", "model": None}, {}])
def test_missing_model_is_told_in_openais_words(body: dict[str, Any]) -> None:
    error = refused(body)
    assert error.message == "you must provide a model parameter"
    assert error.row.code is None


def test_null_is_the_same_as_absent_for_every_optional_field() -> None:
    body = {
        "model": "m",
        "input": "a",
        "encoding_format": None,
        "dimensions": None,
        "user": None,
        "truncate": None,
        "input_type": None,
    }
    fields = parse_embeddings_request(body, 4).fields
    assert (fields.encoding_format, fields.dimensions, fields.asked_truncation) == (
        "float",
        None,
        None,
    )


def test_unknown_fields_are_ignored() -> None:
    body = {"model": "m", "input": "a", "output_dtype": None, "priority": 3}
    assert parse_embeddings_request(body, 4).texts == ["a"]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("encoding_format", "md5", None),
        ("encoding_format", 3, None),
        ("dimensions", 0, None),
        ("dimensions", "8", "invalid_type"),
        ("dimensions", True, "invalid_type"),
        ("model", 3, "invalid_type"),
        ("truncate", "yes", "invalid_type"),
        ("token_input", "other", None),
    ],
)
def test_wrong_field_is_named_with_its_code(field: str, value: object, code: str | None) -> None:
    error = refused({"model": "m", "input": "a"} | {field: value})
    assert (error.row.status, error.param, error.row.code) == (400, field, code)


def test_wrong_choice_lists_the_right_ones() -> None:
    error = refused({"model": "m", "input": "a", "encoding_format": "md5"})
    assert "Supported values: ['float', 'base64', 'base64_int8', 'base64_binary']" in error.message


@pytest.mark.parametrize("name", ["truncate", "truncation"])
def test_truncation_has_two_names(name: str) -> None:
    assert parse_embeddings_request(
        {"model": "m", "input": "a", name: True}, 4
    ).fields.asked_truncation


@pytest.mark.parametrize("kind", ["base64", ["base64"]])
def test_jinas_base64_is_ours(kind: object) -> None:
    body = {"model": "m", "input": "a", "embedding_type": kind}
    form = parse_embeddings_request(body, 4).fields.form()
    assert (form.base64, form.dtype) == (True, "float")
