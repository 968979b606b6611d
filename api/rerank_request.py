"""The bodies of the rerank and score routes as one typed request."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from api.errors import ApiError
from api.fields import RequestFields, missing, parse_fields
from api.prompt_fields import PromptFields

Shape = Literal["rerank", "texts", "score"]  # Cohere's and the others', TEI's, vLLM's


class RerankFields(PromptFields, RequestFields):
    """Everything but the query and the documents."""

    model: str | None = None
    top_n: int | None = Field(default=None, ge=0)  # 0: all
    top_k: int | None = Field(default=None, ge=0)  # Voyage's name for the same
    return_documents: bool = False
    return_text: bool = False  # TEI's name for the same
    rank_fields: list[str] | None = Field(default=None, min_length=1)
    max_tokens_per_doc: int | None = Field(default=None, ge=0)  # 0: no limit of its own
    raw_scores: bool = False
    use_activation: bool = True  # vLLM's opposite of raw_scores

    @property
    def truncates(self) -> bool:
        """Documents are cut by default; the query never is."""
        asked = self.asked_truncation
        return True if asked is None else asked

    @property
    def raw(self) -> bool:
        return self.raw_scores or not self.use_activation


@dataclass(frozen=True)
class QueryGroup:
    """One query with the texts to score against it."""

    query: str
    texts: list[str]


@dataclass(frozen=True)
class RerankRequest:
    fields: RerankFields
    shape: Shape
    groups: list[QueryGroup]  # one, but for vLLM's N queries with N texts
    documents: list[dict[str, Any]]  # as they are given back
    query_name: str  # the fields of the body that hold them
    texts_name: str


def parse_rerank_request(body: dict[str, Any], max_inputs: int) -> RerankRequest:
    """Raises ApiError naming the field at fault."""
    body = {name: value for name, value in body.items() if value is not None}
    fields = parse_fields(RerankFields, body)
    if (fields.truncate_prompt_tokens or -1) > 0:
        message = "Pairs are cut by 'max_tokens_per_doc', or at the model's limit (-1)."
        raise ApiError("invalid_value", message, param="truncate_prompt_tokens")
    left = next((n for n in ("text_1", "queries", "data_1") if n in body), None)
    if left is not None:
        right = next((n for n in ("text_2", "documents", "items", "data_2") if n in body), "text_2")
        return _score_request(fields, body, (left, right), max_inputs)
    name = "texts" if "texts" in body else "documents"
    query = _query(body)
    documents = _items(body, name, max_inputs)
    texts = [_text(item, f"{name}[{i}]", fields.rank_fields) for i, item in enumerate(documents)]
    returned = [item if isinstance(item, dict) else {"text": item} for item in documents]
    shape: Shape = "texts" if name == "texts" else "rerank"
    return RerankRequest(fields, shape, [QueryGroup(query, texts)], returned, "query", name)


def _query(body: dict[str, Any]) -> str:
    query = body.get("query")
    if query is None:
        raise missing("query")
    if not isinstance(query, str):
        raise ApiError("wrong_type", "Invalid type for 'query': a string is expected.", "query")
    if not query.strip():
        raise ApiError("invalid_value", "invalid request: query must not be empty", "query")
    return query


def _items(body: dict[str, Any], name: str, max_inputs: int) -> list[Any]:
    items = body.get(name)
    if items is None:
        raise missing(name)
    if not isinstance(items, list):
        raise ApiError("wrong_type", f"Invalid type for '{name}': a list is expected.", name)
    if not items:
        message = "invalid request: list of documents must not be empty"
        raise ApiError("invalid_value", message, name)
    if len(items) > max_inputs:
        message = f"Invalid '{name}': array length must be {max_inputs} or less."
        raise ApiError("invalid_value", message, name)
    return items


def _text(item: object, param: str, rank_fields: list[str] | None) -> str:
    """A string itself; of an object its `text`, or the fields to rank by, in their order."""
    if isinstance(item, str):
        return item
    if not isinstance(item, dict):
        message = f"Invalid type for '{param}': a string or an object is expected."
        raise ApiError("wrong_type", message, param)
    # Each field once: a list that repeats a name must not multiply a document.
    names = dict.fromkeys(rank_fields or ["text"])
    values = [item[name] for name in names if name in item]
    if not values or not all(isinstance(value, str) for value in values):
        wanted = " or ".join(f"'{name}'" for name in list(names)[:8])
        raise ApiError("invalid_value", f"'{param}' has no text in {wanted}.", param)
    return "\n".join(values)


def _score_request(
    fields: RerankFields, body: dict[str, Any], names: tuple[str, str], max_inputs: int
) -> RerankRequest:
    """vLLM's: one text against N, or N against N by place."""
    left, right = (_strings(body, name, max_inputs) for name in names)
    for index, query in enumerate(left):
        if not query.strip():
            message = "invalid request: query must not be empty"
            raise ApiError("invalid_value", message, f"{names[0]}[{index}]")
    if len(left) == 1:
        groups = [QueryGroup(left[0], right)]
    elif len(left) == len(right):
        groups = [QueryGroup(query, [text]) for query, text in zip(left, right, strict=True)]
    else:
        message = f"'{names[0]}' holds one text, or as many as '{names[1]}'."
        raise ApiError("invalid_value", message, names[0])
    return RerankRequest(fields, "score", groups, [], *names)


def _strings(body: dict[str, Any], name: str, max_inputs: int) -> list[str]:
    if isinstance(body.get(name), str):
        return [body[name]]
    if body.get(name) is not None and not isinstance(body[name], list):
        message = f"Invalid type for '{name}': a string or a list is expected."
        raise ApiError("wrong_type", message, name)
    items = _items(body, name, max_inputs)
    return [_text(item, f"{name}[{i}]", None) for i, item in enumerate(items)]
