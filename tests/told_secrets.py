"""Looks for keys, and what opens them, where they must never be."""

import base64
import re

# The whole of one, or its beginning as far as the secret has begun.
_KEY = re.compile(r"sk-[a-z0-9]+-[0-9a-f]{12}-[0-9A-Za-z]+")
_SHOWN = 12  # characters of it that a failure may repeat: its kind and where it was made


class KeyTold(AssertionError):
    """A text holds a key, or something that is as good as one."""


def check_no_key(text: str) -> None:
    """Raises `KeyTold`, without the key."""
    if found := _KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise KeyTold(f"line {line} holds a key: {found[0][:_SHOWN]}…")


def check_none_of(secrets: dict[str, str | bytes], text: str) -> None:
    """`secrets`: by what they are called. Bytes are looked for as hex and as base64, too."""
    for name, secret in secrets.items():
        for form in _forms(secret):
            if form in text:
                raise KeyTold(f"{name} is told")


def _forms(secret: str | bytes) -> list[str]:
    if isinstance(secret, str):
        return [secret]
    encoded = [base64.b64encode(secret), base64.urlsafe_b64encode(secret)]
    # Its repr as Python would log it; base64 with and without what fills it up.
    return [
        secret.hex(),
        secret.hex().upper(),
        repr(secret)[2:-1],
        *(text.decode().rstrip("=") for text in encoded),
    ]
