"""What can go wrong with a checkpoint or with an input.

CheckpointError           the server does not start
├─ CheckpointNotFound     nothing there, nor on the hub
├─ ChecksumMismatch       a packaged file is not the published one
└─ UnsupportedCheckpoint  there, but this server cannot run it faithfully
UnknownPrompt             a request asks for a prompt that its model does not have
InputError                one input of a request is at fault
├─ InputTooLong           more tokens than the model takes
├─ QueryTooLong           a query that leaves its documents no room
├─ EmptyInput             not one token, special tokens included
├─ InvalidTokenId         a native or cl100k id out of range
└─ InvalidText            a lone surrogate

Messages never contain the text of an input.
"""

from collections.abc import Iterable


class CheckpointError(Exception):
    """A model that cannot be served; the message says what to do."""


class CheckpointNotFound(CheckpointError):
    """Neither a directory, nor a package, nor on the hub."""


class ChecksumMismatch(CheckpointError):
    """A packaged file differs from the one whose SHA-256 is known."""


class UnsupportedCheckpoint(CheckpointError):
    """A checkpoint that says something this server does not do, or does not say enough."""


class UnknownPrompt(Exception):
    """`field` is the one of PromptChoice at fault; `choices` are what it may say, if anything."""

    def __init__(self, field: str, choices: Iterable[str]) -> None:
        self.field = field
        self.choices = tuple(choices)
        known = f"one of {', '.join(self.choices)}" if self.choices else "this model has none"
        super().__init__(f"{field} is not known to the model: {known}")


class InputError(Exception):
    """An input that cannot become tokens. `index`: its place in the request."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class InputTooLong(InputError):
    """`tokens` includes special tokens; None: so long that nothing was tokenized."""

    def __init__(self, index: int, tokens: int | None, limit: int) -> None:
        length = "far too many" if tokens is None else tokens
        super().__init__(index, f"input {index} has {length} tokens, the limit is {limit}")
        self.tokens = tokens
        self.limit = limit


class QueryTooLong(InputError):
    """`tokens` is the query's with the pair's special tokens; None: nothing was tokenized."""

    def __init__(self, tokens: int | None, limit: int) -> None:
        length = "far too many" if tokens is None else tokens
        super().__init__(
            0, f"the query has {length} tokens, which leaves no room for a document: limit {limit}"
        )
        self.tokens = tokens
        self.limit = limit


class EmptyInput(InputError):
    def __init__(self, index: int) -> None:
        super().__init__(index, f"input {index} gives no tokens")


class InvalidTokenId(InputError):
    """`position`: the place of the id within its input."""

    def __init__(self, index: int, position: int) -> None:
        super().__init__(index, f"input {index} has an invalid token id at position {position}")
        self.position = position


class InvalidText(InputError):
    def __init__(self, index: int) -> None:
        super().__init__(index, f"input {index} is not valid Unicode: it holds a lone surrogate")
