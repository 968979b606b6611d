"""The body of /v1/embeddings as a typed request."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from api.errors import ApiError
from api.fields import RequestFields, missing, parse_fields
from checkpoint.spec import TokenInput

Texts = list[str]
TokenIds = list[list[int]]


class EmbeddingsFields(RequestFields):
    """Everything but `input`, which may hold 2,048 long items and is checked by hand."""

    model: str
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    normalize: bool | None = None  # None: as the model's modules say
    truncate: bool | None = None
    truncation: bool | None = None  # Voyage's name for the same
    token_input: TokenInput | None = None  # None: the model's policy
    user: str | None = None

    @property
    def truncates(self) -> bool:
        chosen = self.truncate if self.truncate is not None else self.truncation
        return bool(chosen)


@dataclass(frozen=True)
class EmbeddingsRequest:
    fields: EmbeddingsFields
    texts: Texts | None  # either texts
    token_ids: TokenIds | None  # or token ids, not yet range-checked


def parse_embeddings_request(body: dict[str, Any], max_inputs: int) -> EmbeddingsRequest:
    """Raises ApiError naming the field at fault."""
    fields = parse_fields(EmbeddingsFields, body)
    if body.get("input") is None:
        raise missing("input")
    texts, token_ids = parse_input(body["input"], max_inputs)
    return EmbeddingsRequest(fields, texts, token_ids)


def parse_input(value: object, max_inputs: int) -> tuple[Texts | None, TokenIds | None]:
    """`str | [str] | [int] | [[int]]`, decided by the first item; a flat [int] is one input."""
    if isinstance(value, str):
        return [value], None
    if not isinstance(value, list) or not value:
        raise _invalid("a string, or a list that is not empty, is expected")
    if type(value[0]) is int:
        return None, [_ids(value, 0)]
    if len(value) > max_inputs:
        raise _invalid(f"array length must be {max_inputs} or less")
    if isinstance(value[0], str):
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise _mixed(index)
        return value, None
    return None, [_ids(item, index) for index, item in enumerate(value)]


def _ids(item: object, index: int) -> list[int]:
    # `type(x) is int` and not isinstance: true and false are no token ids.
    if not isinstance(item, list) or not all(type(x) is int for x in item):
        raise _mixed(index)
    return item


def _mixed(index: int) -> ApiError:
    message = (
        "'$.input' is invalid: items must be all strings or all lists of token ids. "
        "Please check the API reference."
    )
    return ApiError("wrong_type", message, param=f"input[{index}]")


def _invalid(why: str) -> ApiError:
    message = f"'$.input' is invalid: {why}. Please check the API reference."
    return ApiError("invalid_value", message, param="input")
