"""Settings as command-line flags, each written once (in cli/settings.py)."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cli.console import complain
from cli.settings import (
    Settings,
    SettingsError,
    flag_of,
    load_settings,
    variable_of,
)

_USAGE_ERROR = 2  # exit code


def with_settings(
    names: tuple[str, ...], **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of these settings; it receives them as `settings`.

    `defaults`: of this command, where they differ.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**flags: Any) -> None:
            chosen = {name: flags.pop(name) for name in names}
            command(settings=settings_or_exit(chosen, defaults), **flags)

        own = [
            parameter
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "settings"
        ]
        parameters = [*own, *(_option(name, defaults) for name in names)]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def settings_or_exit(flags: dict[str, Any], defaults: dict[str, Any]) -> Settings:
    try:
        return load_settings(flags, defaults=defaults)
    except SettingsError as error:
        complain(error)
        raise typer.Exit(_USAGE_ERROR) from None


def _option(name: str, defaults: dict[str, Any]) -> inspect.Parameter:
    field = Settings.model_fields[name]
    kind = _flag_type(field.annotation)
    flag = flag_of(name)
    option = typer.Option(
        flag if kind is not bool else f"{flag}/--{flag[5:] if flag.startswith('--no-') else ''}",
        help=f"{field.description} [{variable_of(name)}]",
        show_default=_shown(defaults.get(name, field.default)),
    )
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _flag_type(annotation: Any) -> Any:
    """What typer parses; the settings check the rest."""
    if annotation == tuple[str, ...]:
        return list[str]
    for kind in (bool, int, float):
        if annotation in (kind, kind | None):
            return kind
    return str


def _shown(default: Any) -> str | bool:
    if default in (None, False, ()):
        return False
    return ", ".join(default) if isinstance(default, tuple) else str(default)
