"""The Lua scripts: each does one step of the protocol whole, and may run twice."""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from transport.redis.errors import Unreachable
from transport.redis.line import Argument, Line
from transport.redis.patience import patience


class Script:
    """One Lua file. `jobs.lua` stands before those that work on jobs."""

    def __init__(self, name: str, of_jobs: bool = False) -> None:
        self.name = name
        shebang, body = _read(name).split("\n", 1)
        # What only reads is called so, or its keys would need the right to be written.
        self._form = "_RO" if "no-writes" in shebang else ""
        self.text = "\n".join([shebang, _read("jobs") if of_jobs else "", body])
        self._sha1 = _sha1(self.text)

    async def run(self, line: Line, keys: tuple[str, ...], *arguments: Argument) -> Any:
        """The raw answer. Raises what `Line.execute` raises."""
        try:
            return await line.execute(
                "EVALSHA" + self._form, self._sha1, len(keys), *keys, *arguments, op=self.name
            )
        except NoScriptError:  # a new server, or SCRIPT FLUSH
            command = ("EVAL" + self._form, self.text, len(keys), *keys, *arguments)
            return await line.execute(*command, op=self.name)


class LineScripts:
    """Runs the scripts of others, which know of no line, on one."""

    def __init__(self, line: Line, timeout_s: float = 1.0) -> None:
        """`line` makes one attempt, unless every script may run twice."""
        self._line = line
        self._timeout_s = timeout_s  # of a script, connecting included

    async def run(self, text: str, keys: Sequence[str], *arguments: Argument) -> Any:
        """The raw answer. Raises redis' ConnectionError and TimeoutError, where nothing is known of
        what became of it, and ResponseError.
        """
        try:
            async with patience(self._timeout_s):
                try:
                    return await self._line.execute(
                        "EVALSHA", _sha1(text), len(keys), *keys, *arguments
                    )
                except NoScriptError:
                    return await self._line.execute("EVAL", text, len(keys), *keys, *arguments)
        except Unreachable as error:
            raise RedisConnectionError(str(error)) from error


@lru_cache(maxsize=64)
def _sha1(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def _read(name: str) -> str:
    return files("transport.redis").joinpath("lua", f"{name}.lua").read_text()


SUBMIT = Script("submit", of_jobs=True)
FINISH = Script("finish", of_jobs=True)
DEAD_LETTER = Script("dead_letter", of_jobs=True)
WITHDRAW = Script("withdraw", of_jobs=True)
BACKLOG = Script("backlog", of_jobs=True)
OLDEST = Script("oldest")
TAKE = Script("take")
ANNOUNCE = Script("announce")
DISCOVER = Script("discover")
REAP = Script("reap")
JOIN = Script("join")
RECLAIM_OWN = Script("reclaim_own")
