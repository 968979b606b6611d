"""The Lua scripts: each does one step of the protocol whole, and may run twice."""

from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from transport.redis.line import Argument, Line


class Script:
    """One Lua file. `jobs.lua` stands before those that work on jobs."""

    def __init__(self, name: str, of_jobs: bool = False) -> None:
        self.name = name
        shebang, body = _read(name).split("\n", 1)
        # What only reads is called so, or its keys would need the right to be written.
        self._form = "_RO" if "no-writes" in shebang else ""
        self.text = "\n".join([shebang, _read("jobs") if of_jobs else "", body])
        self._sha1 = sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, line: Line, keys: tuple[str, ...], *arguments: Argument) -> Any:
        """The raw answer. Raises what `Line.execute` raises."""
        try:
            return await line.execute(
                "EVALSHA" + self._form, self._sha1, len(keys), *keys, *arguments, op=self.name
            )
        except NoScriptError:  # a new server, or SCRIPT FLUSH
            command = ("EVAL" + self._form, self.text, len(keys), *keys, *arguments)
            return await line.execute(*command, op=self.name)


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
