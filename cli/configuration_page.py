"""docs/configuration.md, written from the settings: `python -m cli.configuration_page`."""

from typing import Any

from cli.settings import SECRETS, Settings, flag_of, variable_of

_HEAD = """# Configuration

Written by `make docs` from `cli/settings.py`; a test holds it true.

A flag wins over its variable, a variable over the default. Lists are separated by commas in a
variable and given by repeating a flag. A secret may also be in a file, which
`FLORILEGE_<NAME>_FILE` names, and is better there: flags stand in `ps` for every user of the host.
A variable that begins with `FLORILEGE_` and is not listed here stops the start.

| flag | variable | default | meaning |
|---|---|---|---|
"""


def configuration_page() -> str:
    return _HEAD + "".join(_row(name) for name in Settings.model_fields)


def _row(name: str) -> str:
    field = Settings.model_fields[name]
    description = (field.description or "").replace("|", "\\|")
    variable = f"`{variable_of(name)}`" + (" (secret)" if name in SECRETS else "")
    return f"| `{flag_of(name)}` | {variable} | {_default(field.default)} | {description} |\n"


def _default(value: Any) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`" if not isinstance(value, bool) else ("on" if value else "off")


if __name__ == "__main__":
    print(configuration_page(), end="")
