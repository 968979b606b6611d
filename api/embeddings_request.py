"""The body of /v1/embeddings as a typed request."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from api.errors import ApiError
from api.fields import RequestFields, missing, parse_fields
from api.prompt_fields import PromptFields
from api.quantize import BitOrder, OutputDtype
from api.vectors import VectorForm
from checkpoint.spec import TokenInput

Texts = list[str]
TokenIds = list[list[int]]
EncodingFormat = Literal["float", "base64", "base64_int8", "base64_binary"]
EmbeddingType = Literal["float", "base64", "int8", "uint8", "binary", "ubinary"]


class EmbeddingsFields(PromptFields, RequestFields):
    """Everything but `input`, which may hold 2,048 long items and is checked by hand."""

    model: str
    encoding_format: EncodingFormat = "float"
    output_dtype: OutputDtype | None = None
    embedding_type: EmbeddingType | list[EmbeddingType] | None = None  # Jina's name for both
    bitorder: BitOrder | None = None
    dimensions: int | None = Field(default=None, ge=1)
    output_dimension: int | None = Field(default=None, ge=1)  # Voyage's name for the same
    normalize: bool | None = None  # None: as the model's modules say
    token_input: TokenInput | None = None  # None: the model's policy
    user: str | None = None

    def form(self) -> VectorForm:
        """What the vectors shall be. Raises ApiError where two fields contradict each other."""
        dtype, base64 = self._type()
        if None not in (sizes := {self.dimensions, self.output_dimension}) and len(sizes) > 1:
            message = "'dimensions' and 'output_dimension' contradict each other."
            raise ApiError("invalid_value", message, "output_dimension")
        bit_order = self.bitorder or "big"
        if self.encoding_format == "base64_binary":  # Perplexity's: the first dimension is bit 0
            bit_order = self.bitorder or "little"
        return VectorForm(
            dimensions=self.dimensions or self.output_dimension,
            normalize=self.normalize,
            dtype=dtype,
            base64=base64,
            bit_order=bit_order,
        )

    def _type(self) -> tuple[OutputDtype, bool]:
        fixed: dict[str, OutputDtype] = {"base64_int8": "int8", "base64_binary": "ubinary"}
        asked = [self.output_dtype, fixed.get(self.encoding_format), self._embedding_dtype()]
        dtypes = {dtype for dtype in asked if dtype is not None}
        if len(dtypes) > 1:
            message = (
                "'output_dtype', 'embedding_type' and 'encoding_format' contradict each other."
            )
            raise ApiError("invalid_value", message, "output_dtype")
        base64 = self.encoding_format != "float" or self.embedding_type in ("base64", ["base64"])
        return dtypes.pop() if dtypes else "float", base64

    def _embedding_dtype(self) -> OutputDtype | None:
        kind = self.embedding_type
        if isinstance(kind, list):
            if len(kind) != 1:
                message = "'embedding_type' may name one type a request."
                raise ApiError("invalid_value", message, "embedding_type")
            kind = kind[0]
        return None if kind is None or kind == "base64" else kind


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
    # By type, not by isinstance: true and false are no token ids. A set, since lists are long.
    if not isinstance(item, list) or not set(map(type, item)) <= {int}:
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
