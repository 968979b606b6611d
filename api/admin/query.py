"""The query of a URL: whole numbers within bounds, and lists in the spellings of the SDKs."""

from collections.abc import Collection

from starlette.requests import Request

from api.errors import ApiError

_DIGITS = 15  # far more than any number asked for has


def refuse_unknown(names: Collection[str], known: Collection[str]) -> None:
    """A limit or a filter that is misspelt must not be taken for none. Raises ApiError."""
    for name in names:
        if name not in known:
            shown = name[:200]
            message = f"Unrecognized request argument supplied: {shown}"
            raise ApiError("invalid_value", message, shown)


def whole_number(request: Request, name: str, bounds: tuple[int, int]) -> int | None:
    """None where it is absent. Raises ApiError."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ApiError("wrong_type", f"Invalid type for '{name}': a whole number.", name)
    least, most = bounds
    if not least <= int(text) <= most:
        message = f"Invalid value for '{name}': from {least} to {most}."
        raise ApiError("invalid_value", message, name)
    return int(text)


def listed(request: Request, name: str) -> frozenset[str] | None:
    """`name=a&name=b` or `name[]=a&name[]=b`; None where it is absent."""
    given = request.query_params
    values = [*given.getlist(name), *given.getlist(f"{name}[]")]
    return frozenset(values) if values else None
