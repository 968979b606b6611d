"""The secret that turns a key into the digest the database holds."""

import base64
import binascii
import hmac
import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from auth.errors import PepperExposed, PepperMalformed, PepperMissing

PEPPER_BYTES = 32
READABLE_BY_OTHERS = 0o077

LAST_VERSION = 2**31 - 1  # that the database holds

_FORMAT = (
    "a pepper is one line `<version>:<base64 of at least 32 bytes>`, versions from 1 to "
    f"{LAST_VERSION}"
)
_VERSION = re.compile(r"0*[1-9][0-9]{0,9}")


class Peppers:
    """The peppers by version. The highest version digests new keys, the others the old ones."""

    __slots__ = ("_secrets", "version")

    def __init__(self, by_version: Mapping[int, bytes]) -> None:
        self._secrets = dict(by_version)
        self.version = max(self._secrets)

    @classmethod
    def generate(cls) -> "Peppers":
        return cls({1: secrets.token_bytes(PEPPER_BYTES)})

    @classmethod
    def parse(cls, text: str) -> "Peppers":
        """Read `version:base64` entries separated by white space. Raises `PepperMalformed`."""
        by_version: dict[int, bytes] = {}
        for entry in text.split():
            version, separator, encoded = entry.partition(":")
            if not (separator and _VERSION.fullmatch(version)) or int(version) > LAST_VERSION:
                raise PepperMalformed(_FORMAT)
            try:
                secret = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                # `from None`: the cause would carry the secret into a traceback.
                raise PepperMalformed(_FORMAT) from None
            if len(secret) < PEPPER_BYTES or int(version) in by_version:
                raise PepperMalformed(_FORMAT)
            by_version[int(version)] = secret
        if not by_version:
            raise PepperMalformed(_FORMAT)
        return cls(by_version)

    def __contains__(self, version: int) -> bool:
        return version in self._secrets

    def __repr__(self) -> str:
        return f"Peppers(versions={sorted(self._secrets)})"

    def matching(self, fingerprints: Mapping[int, bytes]) -> "Peppers | None":
        """Those of which these are the fingerprints; None where that is none."""
        matching = {
            version: secret
            for version, secret in self._secrets.items()
            if self.fingerprint(version) == fingerprints.get(version)
        }
        return Peppers(matching) if matching else None

    def digest(self, key: str, version: int) -> bytes:
        """HMAC-SHA256 of the key: 32 bytes.

        One fast hash is enough: 256 random bits cannot be guessed, and a slow one would let a
        flood of wrong keys occupy the server.
        """
        return hmac.digest(self._secrets[version], key.encode("ascii"), "sha256")

    def fingerprint(self, version: int) -> bytes:
        """32 bytes, kept beside the keys, that tell whether a pepper is the one they need."""
        return self.digest("florilege pepper fingerprint", version)

    def dump(self) -> str:
        """The text that `parse` reads."""
        entries = sorted(self._secrets.items())
        return "".join(f"{v}:{base64.b64encode(secret).decode()}\n" for v, secret in entries)


def load_peppers(path: Path) -> Peppers:
    """Read the pepper file of a data directory.

    Raises `PepperMissing`, `PepperMalformed`, or `PepperExposed` when group or others may read it.
    A pepper from elsewhere (a mounted secret) is the caller's to read: `Peppers.parse`.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except FileNotFoundError:
        raise PepperMissing(f"no pepper at {path}") from None
    except UnicodeDecodeError:
        raise PepperMalformed(_FORMAT) from None
    except OSError as error:
        raise PepperMissing(
            f"the pepper at {path} cannot be read: {type(error).__name__}"
        ) from None
    if mode & READABLE_BY_OTHERS:
        raise PepperExposed(f"{path} is open to other users: chmod 600 {path}")
    return Peppers.parse(text)


def create_peppers(path: Path) -> Peppers:
    """Make the pepper file, mode 0600, or read the one that is there.

    The file appears whole or not at all. Raises what `load_peppers` raises, and `OSError`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp opens with O_EXCL and mode 0600; link, unlike rename, never replaces a file.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".pepper-")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(Peppers.generate().dump())
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(temporary)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return load_peppers(path)
