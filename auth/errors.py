"""What can go wrong with a key or with the store of keys. No message holds any part of a key."""


class AuthError(Exception):
    """All errors of this package."""


class MissingKey(AuthError):
    """The server asks for a key and none was presented."""


class InvalidKey(AuthError):
    """Malformed, unknown, expired and revoked keys alike: the caller is not told which."""


class MalformedKey(AuthError):
    """The text is not a key of this format, or its checksum is wrong."""


class UnknownKey(AuthError):
    """No row has this key id."""


class UnknownProject(AuthError):
    """No row has this name of a project."""


class KeyRefused(AuthError):
    """What is asked of a key cannot be: a field outside its range, a dead key to be rotated."""

    def __init__(self, reason: str, field: str | None = None) -> None:
        """`field` is the one at fault, as `NewKey`, `Limits` or the call names it, if one is."""
        super().__init__(reason if field is None else f"{field}: {reason}")
        self.reason = reason
        self.field = field


class PepperMissing(AuthError):
    """The store holds keys made with a pepper that was not given."""


class PepperMismatch(AuthError):
    """A pepper was given, but the keys of the store were made with another of the same version."""


class PepperExposed(AuthError):
    """Other users of the host can read the pepper file."""


class PepperMalformed(AuthError):
    """The text does not hold peppers, one `version:base64` a line."""


class SchemaOutdated(AuthError):
    """The tables of the database are older than this version of the program."""


class SchemaNewer(AuthError):
    """The tables of the database were written by a newer version of the program."""


class StoreUnavailable(AuthError):
    """The database cannot be reached, read or written."""
