"""What a gateway's operator says of its models, over what their workers announce."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from checkpoint.spec import ModelSpec


class ModelConfigError(ValueError):
    """The file cannot be read, or says what no model can be."""


class ModelOverride(BaseModel):
    """What is said of one model; what is left out stays as the worker announces it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    aliases: tuple[str, ...] | None = Field(None, strict=False)
    prompts: Mapping[str, str] | None = None
    default_prompt: str | None = None  # a name in prompts; with prompts alone there is none
    instruction: str | None = None  # of an LLM reranker, where the request says nothing
    max_tokens: int | None = Field(None, ge=1)  # never above the worker's

    @model_validator(mode="after")
    def _check_default(self) -> Self:
        if self.default_prompt is not None and self.default_prompt not in (self.prompts or {}):
            raise ValueError("default_prompt names none of the prompts beside it")
        return self

    def apply(self, spec: ModelSpec) -> ModelSpec:
        changes: dict[str, Any] = {}
        if self.aliases is not None:
            changes["aliases"] = self.aliases
        if self.prompts is not None:
            changes |= {"prompts": self.prompts, "default_prompt": self.default_prompt}
        if self.instruction is not None:
            changes["instruction"] = self.instruction
        if self.max_tokens is not None and self.max_tokens < spec.max_tokens:
            changes |= {"max_tokens": self.max_tokens, "max_tokens_source": "--model-config"}
        return replace(spec, **changes)


Overrides = Mapping[str, ModelOverride]  # by model id

_OVERRIDES = TypeAdapter(dict[str, ModelOverride])


def read_model_config(path: Path) -> Overrides:
    """A TOML file with one table a model id. Raises ModelConfigError."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ModelConfigError(f"{path}: {error}") from None
    try:
        return _OVERRIDES.validate_python(tables)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ModelConfigError(f"{path}: {place}: {first['msg']}") from None
