"""Limits counted in Redis, for all gateways together, by Redis' clock."""

import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from redis.exceptions import RedisError

from auth.holder import Holder
from auth.limits.demand import Budget, Demand
from auth.limits.period import Span, span_of
from auth.limits.seeding import Seeding
from auth.limits.standing import BucketStanding, Refusal, Standing
from auth.limits.store import ScriptRunner, Seed

GATEWAYS = "florilege:rl:gateways"  # sorted set of those that live, by their last heartbeat
_SILENT_S = 15.0  # five heartbeats

# What a take may need to be told its period, and what the database knows, and both once more
# where midnight comes between.
_MOST_ROUNDS = 6

_KEYS_AT_ONCE = 500  # others have their turn between

_Argument = str | int | float


def _script(name: str) -> str:
    """`clock.lua` stands before each, behind the line of its flags."""
    flags, body = _read(name).split("\n", 1)
    return "\n".join([flags, _read("clock"), body])


def _read(name: str) -> str:
    return files("auth.limits").joinpath("lua", f"{name}.lua").read_text()


_TAKE, _GIVE_BACK, _HEARTBEAT, _ASK_AGAIN = map(
    _script, ("take", "give_back", "heartbeat", "ask_again")
)


class RedisLimits:
    """Each call is one script; a second where the database is to be asked what a budget has used:
    where it is met for the first time, and every RESEED_S from then on."""

    def __init__(
        self,
        scripts: ScriptRunner,
        seed: Seed,
        *,
        now: Callable[[], float] | None = None,
        here: Callable[[], float] = time.time,
    ) -> None:
        """`here` is this host's clock, in seconds since 1970; `now` stands in for Redis' own."""
        self._scripts = scripts
        self._given_now = now
        self._here = here
        self._ahead_s = 0.0  # Redis' clock before ours, as far as it has mattered
        self._seeding = Seeding(seed, here)
        self._gateway = uuid.uuid4().hex
        self.gateways = 1  # that live, by the last heartbeat

    async def take(self, demand: Demand) -> Standing:
        """Raises `RedisError`, `OSError` or `TimeoutError`: it may have been counted or not."""
        seeds = [""] * len(demand.budgets)
        for _ in range(_MOST_ROUNDS):
            now = self._here() + self._ahead_s
            spans = [span_of(budget.period, now) for budget in demand.budgets]
            keys = [*_keys(demand), *map(_use_key, demand.budgets, [s.label for s in spans])]
            answer = await self._run(_TAKE, keys, *self._asked(demand, spans, seeds))
            told, now_us, *rest = answer
            if told == b"counted":
                return self._standing(demand, spans, now_us, rest)
            if told == b"period":
                self._ahead_s = now_us / 1e6 - self._here()
                seeds = [""] * len(demand.budgets)
            else:
                asked = [index - 1 for index in rest]
                due = [(demand.budgets[i], spans[i]) for i in asked]
                for i, used in zip(asked, await self._seeding.ask(due), strict=True):
                    seeds[i] = "?" if used is None else str(used)
        raise RedisError("the clock of Redis does not stand still long enough to take")

    async def give_back(self, taken: Demand) -> None:
        # What Redis does not hear of ends by itself, but for a budget's cost.
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await self.hand_in(taken)

    async def hand_in(self, taken: Demand) -> None:
        """`give_back` that raises what `take` does."""
        arguments: list[_Argument] = [len(taken.buckets), len(taken.slots)]
        for bucket in taken.buckets:
            arguments += [bucket.limit, bucket.cost]
        arguments += [slot.request_id for slot in taken.slots]
        counted = [budget.receipt.partition(":") for budget in taken.budgets]  # in which period
        for budget, (_, _, born) in zip(taken.budgets, counted, strict=True):
            arguments += [budget.cost, born]
        uses = map(_use_key, taken.budgets, [label for label, _, _ in counted])
        await self._run(_GIVE_BACK, [*_keys(taken), *uses], *arguments)

    async def ask_again(self, budgets: Sequence[Budget]) -> None:
        """Have Redis ask the database of these budgets before it grants any more of them.

        More was used than Redis was told. The larger of both counts holds, so that nothing is
        counted twice, and again every RESEED_S, which finds what was not written down yet. Raises
        what `take` does.
        """
        now = self._here() + self._ahead_s
        keys = [_use_key(budget, span_of(budget.period, now).label) for budget in budgets]
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            await self._run(_ASK_AGAIN, keys[first : first + _KEYS_AT_ONCE])

    async def heartbeat(self) -> None:
        """Be counted among the gateways, and count them. Raises what `take` does."""
        arguments = self._gateway, round(_SILENT_S * 1e6)
        self.gateways = int(await self._run(_HEARTBEAT, [GATEWAYS], *arguments))

    async def _run(self, text: str, keys: Sequence[str], *arguments: _Argument) -> Any:
        now_us = 0 if self._given_now is None else round(self._given_now() * 1e6)
        return await self._scripts.run(text, keys, now_us, *arguments)

    def _asked(
        self, demand: Demand, spans: Sequence[Span], seeds: Sequence[str]
    ) -> list[_Argument]:
        arguments: list[_Argument] = [len(demand.buckets), len(demand.slots)]
        for bucket in demand.buckets:
            arguments += [bucket.limit, bucket.burst, bucket.cost]
        for slot in demand.slots:
            arguments += [slot.limit, slot.request_id, round(slot.ttl_s * 1e6)]
        for budget, span, seed in zip(demand.budgets, spans, seeds, strict=True):
            bounds = span.start * 10**6, span.end * 10**6
            arguments += [budget.limit, budget.cost, *bounds, seed]
        return arguments

    def _standing(
        self, demand: Demand, spans: Sequence[Span], now_us: int, rest: list[Any]
    ) -> Standing:
        index, used, wait_us, *counts = rest
        debts, uses = counts[: len(demand.buckets)], counts[len(demand.buckets) :]
        refusal, taken = None, Demand()
        if index:
            refusal = Refusal.told(demand.parts[index - 1], used, wait_us, now_us)
        else:
            counted = zip(demand.budgets, spans, uses[1::2], strict=True)
            budgets = [replace(b, receipt=f"{s.label}:{born.decode()}") for b, s, born in counted]
            taken = replace(demand, budgets=tuple(budgets))
        return Standing(
            refusal=refusal,
            buckets=tuple(
                BucketStanding.of(bucket.limit, bucket.burst, debt)
                for bucket, debt in zip(demand.buckets, debts, strict=True)
            ),
            budgets_used=tuple(map(int, uses[::2])),
            taken=taken,
            by=self,
        )


def _keys(demand: Demand) -> list[str]:
    """Of the buckets and slots."""
    return [
        *(f"florilege:rl:{_of(b.holder)}:{b.unit[0]}" for b in demand.buckets),
        *(f"florilege:lease:{_of(slot.holder)}" for slot in demand.slots),
    ]


def _use_key(budget: Budget, label: str) -> str:
    return f"florilege:use:{_of(budget.holder)}:{label}"


def _of(holder: Holder) -> str:
    return _quoted(holder.kind, holder.name)


@lru_cache(maxsize=65536)
def _quoted(kind: str, name: str) -> str:
    return f"{kind}:{quote(name, safe='')}"  # a colon in it must not look like ours
