"""Work that nobody waits for any more is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Result = TypeVar("Result")

# Most requests are answered sooner, and to watch takes a task.
_UNWATCHED_S = 0.01


async def run_while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, in the task that awaits it; cancelled when the client goes first.

    In the first milliseconds nobody watches for that. The body must have been read. Raises
    ClientDisconnect.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  a coroutine that runs is in one
    gone = ended = False

    def leave(_: asyncio.Future[None]) -> None:
        nonlocal gone
        if not ended:  # called a turn after the client left, when the result may have come
            gone = True
            task.cancel()

    watching: asyncio.Future[None] | None = None

    def watch() -> None:
        nonlocal watching
        watching = asyncio.ensure_future(_disconnected(request))
        watching.add_done_callback(leave)

    timer = asyncio.get_running_loop().call_later(_UNWATCHED_S, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if gone and task.uncancel() == 0:  # else somebody else cancelled the request too
            raise ClientDisconnect from None
        raise
    finally:
        ended = True
        timer.cancel()
        if watching is not None:
            watching.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
