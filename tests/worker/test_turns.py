"""Nothing is in flight beside whoever is alone, and nobody waits for ever."""

import asyncio
from collections.abc import Awaitable, Callable

from worker.turns import Turns

WaitUntil = Callable[..., Awaitable[None]]


class Holder:
    """Somebody in his turn until told to leave."""

    def __init__(self, turns: Turns, *, alone: bool) -> None:
        self.inside = False
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._hold(turns.alone() if alone else turns.shared()))

    async def _hold(self, turn: object) -> None:
        async with turn:  # type: ignore[attr-defined]
            self.inside = True
            await self.leave.wait()
        self.inside = False

    async def end(self) -> None:
        self.leave.set()
        await self.task


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_any_number_share() -> None:
    turns = Turns()
    holders = [Holder(turns, alone=False) for _ in range(5)]
    await settle()
    assert all(holder.inside for holder in holders)
    for holder in holders:
        await holder.end()


async def test_who_is_alone_waits_for_all_and_all_who_come_later_wait_for_him() -> None:
    turns = Turns()
    before = [Holder(turns, alone=False) for _ in range(2)]
    await settle()
    alone = Holder(turns, alone=True)
    await settle()
    after = Holder(turns, alone=False)
    await settle()
    assert (alone.inside, after.inside) == (False, False)
    await before[0].end()
    await settle()
    assert not alone.inside
    await before[1].end()
    await settle()
    assert (alone.inside, after.inside) == (True, False)
    await alone.end()
    await settle()
    assert after.inside
    await after.end()


async def test_two_are_never_alone_together() -> None:
    turns = Turns()
    first, second = Holder(turns, alone=True), Holder(turns, alone=True)
    await settle()
    assert (first.inside, second.inside) == (True, False)
    await first.end()
    await settle()
    assert second.inside
    await second.end()


async def test_turn_ends_with_the_error_of_its_holder() -> None:
    turns = Turns()
    for turn in (turns.shared, turns.alone):
        try:
            async with turn():
                raise LookupError
        except LookupError:
            pass
    async with asyncio.timeout(1), turns.alone():
        pass
