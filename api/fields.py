"""Typed fields of a JSON body: pydantic for each, with messages in OpenAI's words."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from api.errors import ApiError

Fields = TypeVar("Fields", bound="RequestFields")


class RequestFields(BaseModel):
    """A request's fields. null is the same as absent; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


def parse_fields(fields: type[Fields], body: dict[str, Any]) -> Fields:
    """Raises ApiError naming the first field at fault."""
    try:
        return fields.model_validate({k: v for k, v in body.items() if v is not None})
    except ValidationError as error:
        raise _explain(error.errors(include_url=False, include_input=False)[0]) from None


def _explain(problem: ErrorDetails) -> ApiError:
    # Behind the field's name stand places in lists, and names of the types that were tried.
    field, *places = problem["loc"]
    param = str(field) + "".join(f"[{place}]" for place in places if isinstance(place, int))
    if problem["type"] == "missing":
        return missing(param)
    if problem["type"] == "literal_error":
        supported = problem["ctx"]["expected"].replace(" or ", ", ")
        message = f"Invalid value for '{param}'. Supported values: [{supported}]."
        return ApiError("invalid_value", message, param)
    if problem["type"].endswith("_type") or problem["type"].endswith("_parsing"):
        return ApiError("wrong_type", f"Invalid type for '{param}': {problem['msg']}.", param)
    return ApiError("invalid_value", f"Invalid value for '{param}': {problem['msg']}.", param)


def missing(param: str) -> ApiError:
    if param == "model":
        return ApiError("invalid_value", "you must provide a model parameter", param)
    return ApiError("missing_parameter", f"Missing required parameter: '{param}'.", param)
