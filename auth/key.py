"""The text of an API key: `sk-<env>-<kid>-<secret><checksum>`.

The prefix passes the checks of OpenAI clients and lets scanners find leaked keys; the key id finds
the row; the checksum tells a typing error from an unknown key without a look-up. It is no secret.
"""

import re
import secrets
import zlib
from dataclasses import dataclass

from auth.errors import KeyRefused, MalformedKey

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KID_BYTES = 6
SECRET_SYMBOLS = 43  # 43 · log2(62) = 256.03 bits
CHECKSUM_SYMBOLS = 6  # 62^6 > 2^32
DEFAULT_ENV = "live"

_ENV = re.compile(r"[a-z][a-z0-9]{0,15}")
_KEY = re.compile(
    rf"(?P<body>sk-(?P<env>{_ENV.pattern})-(?P<kid>[0-9a-f]{{{2 * KID_BYTES}}})"
    rf"-[0-9A-Za-z]{{{SECRET_SYMBOLS}}})(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_SYMBOLS}}})"
)


@dataclass(frozen=True)
class ParsedKey:
    """What a well-formed key says of itself; the secret stays in the text it came from."""

    env: str
    kid: str


def generate_key(env: str = DEFAULT_ENV) -> tuple[str, str]:
    """Make a new key. Returns the whole key, to be shown once, and its key id.

    Raises `KeyRefused` unless `env` is 1 to 16 lower-case letters and digits, a letter first.
    """
    if not _ENV.fullmatch(env):
        raise KeyRefused("1 to 16 lower-case letters and digits, a letter first", "env")
    kid = secrets.token_hex(KID_BYTES)
    secret = "".join(secrets.choice(BASE62) for _ in range(SECRET_SYMBOLS))
    body = f"sk-{env}-{kid}-{secret}"
    return body + _checksum(body), kid


def parse_key(text: str) -> ParsedKey:
    """Read a key without any look-up. Raises `MalformedKey` for any other text."""
    match = _KEY.fullmatch(text)
    if match is None or _checksum(match["body"]) != match["checksum"]:
        raise MalformedKey("not an API key of this server")
    return ParsedKey(env=match["env"], kid=match["kid"])


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode("ascii"))
    symbols = ""
    for _ in range(CHECKSUM_SYMBOLS):
        number, digit = divmod(number, len(BASE62))
        symbols = BASE62[digit] + symbols
    return symbols
