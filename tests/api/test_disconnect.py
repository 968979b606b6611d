"""Work ends with whoever waits for it, and nothing else does."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

import api.disconnect
from api.disconnect import run_while_connected


class Client:
    """Leaves when it is told to."""

    def __init__(self) -> None:
        self.left = asyncio.get_running_loop().create_future()
        self.request = Request({"type": "http", "headers": []}, self._receive)

    async def _receive(self) -> MutableMapping[str, Any]:
        await self.left
        return {"type": "http.disconnect"}


@pytest.fixture(autouse=True)
def watched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.disconnect, "_UNWATCHED_S", 0.0)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_client_that_leaves_ends_the_work() -> None:
    client, ended = Client(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    answering = asyncio.create_task(run_while_connected(client.request, work()))
    await turns(5)
    client.left.set_result(None)
    with pytest.raises(ClientDisconnect):
        await answering
    assert ended.is_set()


@pytest.mark.parametrize("later", range(4))
async def test_client_that_leaves_as_the_work_ends_cancels_nothing_behind_it(later: int) -> None:
    client, result = Client(), asyncio.get_running_loop().create_future()

    async def answer() -> str:
        async def work() -> str:
            return str(await result)

        try:
            found = await run_while_connected(client.request, work())
        except ClientDisconnect:
            found = "left"
        await turns(5)  # it is sent
        return found

    answering = asyncio.create_task(answer())
    await turns(5)
    client.left.set_result(None)
    await turns(later)
    if not result.cancelled():
        result.set_result("done")
    assert await answering in ("done", "left")


async def test_request_that_somebody_else_cancels_is_cancelled() -> None:
    client = Client()
    never = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await never

    answering = asyncio.create_task(run_while_connected(client.request, work()))
    await turns(5)
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering


async def test_request_that_its_client_and_somebody_else_end_is_cancelled() -> None:
    client = Client()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            answering.cancel()  # a server that stops, say
            raise

    answering = asyncio.create_task(run_while_connected(client.request, work()))
    await turns(5)
    client.left.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await answering
