"""The committed signatures, to bind calls to."""

import ast
import json
from inspect import BoundArguments, Parameter, Signature
from typing import Any

import torch
from signatures.wheels import Wheel


class Contract:
    """What one version of a package accepts."""

    def __init__(self, wheel: Wheel) -> None:
        self._read = json.loads(wheel.data.read_text(encoding="utf-8"))

    def bind(self, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments by name, defaults included. Raises TypeError as the function would."""
        return _bound(self.signature(name), args, kwargs)

    def bind_operator(self, name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The same of an operator of aten."""
        return _bound(self.operator_signature(name), args, kwargs)

    def signature(self, name: str) -> Signature:
        read = self._read["functions"][name]["parameters"]
        return Signature([_parameter(**parameter) for parameter in read])

    def operator_signature(self, name: str) -> Signature:
        return Signature([_operand(argument) for argument in self.schema(name).arguments])

    def schema(self, name: str) -> Any:
        return torch._C.parse_schema(f"aten::{self._read['operators'][name]}")

    def uses(self, attribute: str) -> dict[str, list[str]]:
        return self._read["attributes"][attribute]

    @property
    def exports(self) -> dict[str, str]:
        return self._read["exports"]

    @property
    def operators(self) -> set[str]:
        return set(self._read["operators"])


def _bound(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound: BoundArguments = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _parameter(name: str, kind: str, annotation: str = "", default: str | None = None) -> Parameter:
    value = Parameter.empty if default is None else _value(default)
    return Parameter(name, getattr(Parameter, kind), annotation=annotation, default=value)


def _operand(argument: Any) -> Parameter:
    kind = Parameter.KEYWORD_ONLY if argument.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD
    default = argument.default_value if argument.has_default_value() else Parameter.empty
    return Parameter(argument.name, kind, default=default)


def _value(source: str) -> Any:
    """A default that is no literal stays as it is written."""
    try:
        return ast.literal_eval(source)
    except ValueError:
        return source
