"""Every contender at its best size, in interleaved rounds: a ratio is of one round.

Never do two run at once, and a drift of the machine meets all of them alike.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from bench.client import RequestFailed
from bench.fleet.processes import StartFailed
from bench.gate import MIN_COSINE, Reference, min_cosine, passed
from bench.peers.contender import Contender, Size
from bench.peers.loads import FRESH, FRESH_AGAIN, Load, fresh_texts
from bench.peers.models import Model, PeersMissing
from bench.peers.process import PeerFailed
from bench.peers.results import ContenderRow, LoadRow
from bench.peers.roster import Entrant
from bench.peers.witness import Result, Witness
from bench.texts import Texts

Tell = Callable[[str], None]  # what is being done, for whoever waits

# What ends a peer's part in a run, and the run itself where it is ours.
FAILURES = (PeerFailed, PeersMissing, RequestFailed, StartFailed, OSError)

_SLOW_S = 1.2  # whoever takes longer for the texts of a load is swept over half of them


@dataclass(frozen=True)
class Plan:
    """`texts`: an endless stream. `seed`: of the order in each round."""

    model: Model
    texts: Texts
    seed: str
    rounds: int
    reference: Reference
    tell: Tell
    witness: Witness


@dataclass(eq=False)
class Player:
    """One who takes part: its entrant, and what answers for it."""

    entrant: Entrant
    contender: Contender
    swept: dict[Size, float] = field(default_factory=dict)  # of a load: seconds a text
    rounds_s: list[float] = field(default_factory=list)

    async def turn(self, ask: Callable[[Contender], Awaitable[Result]]) -> Result:
        """Nobody else runs meanwhile."""
        await self.contender.resume()
        try:
            return await ask(self.contender)
        finally:
            await self.contender.pause()

    def row(self, load: str) -> LoadRow:
        about = self.contender.about
        best = self.best
        return LoadRow(
            load=load,
            name=about.name,
            dtype=about.dtype,
            size="" if best is None else str(best),
            swept={str(size): 1 / seconds for size, seconds in self.swept.items()},
            rounds_s=self.rounds_s,
        )

    @property
    def best(self) -> Size | None:
        return min(self.swept, key=lambda size: self.swept[size], default=None)


@dataclass(eq=False)
class Field:
    """Who takes part. A peer that fails leaves it, with the reason in `missing`."""

    tell: Tell
    players: dict[str, Player] = field(default_factory=dict)
    rows: list[ContenderRow] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    async def survives(self, entrant: Entrant, step: Awaitable[None]) -> bool:
        """Whether a peer got through its step. Raises what ended it where it is ours."""
        try:
            await step
        except FAILURES as error:
            if entrant.ours:
                raise
            key = entrant.about.key
            self.missing[key] = str(error).strip() or repr(error)
            self.players.pop(key, None)
            self.tell(f"peers: without {key}: {self.missing[key]}")
            return False
        return True

    async def turns(self, ask: Callable[[Player], Awaitable[None]], order: random.Random) -> None:
        """One of each, in random order."""
        for player in order.sample(list(self.players.values()), len(self.players)):
            await self.survives(player.entrant, ask(player))


@asynccontextmanager
async def started(entrants: Sequence[Entrant], plan: Plan) -> AsyncIterator[Field]:
    """All of them, checked, each asleep. Raises CheckFailed where our vectors are wrong."""
    taking = Field(plan.tell)
    async with AsyncExitStack() as stack:

        async def start(entrant: Entrant) -> None:
            contender = await stack.enter_async_context(entrant.open(plan.model))
            taking.rows.append(await _check(entrant, contender, plan.reference))
            taking.players[entrant.about.key] = Player(entrant, contender)
            await contender.pause()

        for entrant in entrants:
            plan.tell(f"peers: starting {entrant.about.key}")
            await taking.survives(entrant, start(entrant))
        yield taking


async def _check(entrant: Entrant, contender: Contender, reference: Reference) -> ContenderRow:
    cosine = min_cosine(await contender.vectors(reference.texts), reference.vectors)
    if entrant.ours:
        passed(reference, cosine, entrant.about.key)
    about, same = contender.about, cosine >= MIN_COSINE
    return ContenderRow(about.name, about.dtype, about.note, about.versions, cosine, same)


async def measure_load(load: Load, taking: Field, plan: Plan) -> list[LoadRow]:
    """The best size of each, then the rounds. Raises what ends ours."""
    order = random.Random(f"{plan.seed} {load.name}")
    for player in taking.players.values():
        player.swept, player.rounds_s = {}, []
    if not load.alone:
        texts = [load.texts(plan.texts) for _ in range(2)]

        async def sweep(player: Player) -> None:
            plan.tell(f"peers: {load.name}, the best size of {player.entrant.about.key}")
            await _sweep(load, player, texts)

        await taking.turns(sweep, order)
    for number in range(1, plan.rounds + 1):
        plan.tell(f"peers: {load.name}, round {number} of {plan.rounds}")
        await taking.turns(_timed(load, load.texts(plan.texts), plan.witness), order)
    return [player.row(load.name) for player in taking.players.values()]


def _timed(load: Load, texts: list[str], witness: Witness) -> Callable[[Player], Awaitable[None]]:
    async def turn(player: Player) -> None:
        def ask(contender: Contender) -> Awaitable[float]:
            return load.turn(contender, texts, player.best)

        player.rounds_s.append(await witness.measure(lambda: player.turn(ask)))

    return turn


async def _sweep(load: Load, player: Player, texts: Sequence[list[str]]) -> None:
    """Over all of `texts` where it is quick, else over half of each; the fastest counts.

    Their lengths are alike, so that shapes which cost an engine something at first are known to it
    by the second of `texts`.
    """
    part = texts[0][: len(texts[0]) // 4]

    async def ask(contender: Contender) -> None:
        sizes = contender.about.sizes
        seconds = await load.turn(contender, part, sizes[-1])  # warms up
        slow = seconds * len(texts[0]) > _SLOW_S
        corpora = [_half(corpus) for corpus in texts] if slow else texts
        for size in sizes:
            times = [await load.turn(contender, corpus, size) for corpus in corpora]
            player.swept[size] = min(times)

    await player.turn(ask)


def _half(corpus: list[str]) -> list[str]:
    """Every second length, in the order they came."""
    by_words = sorted(range(len(corpus)), key=lambda index: corpus[index].count(" "))
    return [corpus[index] for index in sorted(by_words[::2])]


async def measure_fresh(
    entrants: Sequence[Entrant], taking: Field, plan: Plan, rounds: int
) -> list[LoadRow]:
    """Each started anew for every round, alone. Raises what ends ours."""
    order = random.Random(f"{plan.seed} {FRESH}")
    seconds: dict[str, dict[str, list[float]]] = {}
    for number in range(1, rounds + 1):
        plan.tell(f"peers: {FRESH}, round {number} of {rounds}")
        passes = {name: fresh_texts(plan.texts, order) for name in (FRESH, FRESH_AGAIN)}

        async def turn(entrant: Entrant, passes: dict[str, list[str]] = passes) -> None:
            means_s = await plan.witness.measure(lambda: _fresh_s(entrant, plan, passes))
            for name, mean_s in means_s.items():
                seconds.setdefault(entrant.about.key, {}).setdefault(name, []).append(mean_s)

        for entrant in order.sample(entrants, len(entrants)):
            if entrant.about.key not in taking.missing:
                await taking.survives(entrant, turn(entrant))
    return [
        LoadRow(name, entrant.about.name, entrant.about.dtype, "", {}, rounds_s)
        for entrant in entrants
        if entrant.about.key not in taking.missing
        for name, rounds_s in seconds[entrant.about.key].items()
    ]


async def _fresh_s(entrant: Entrant, plan: Plan, passes: dict[str, list[str]]) -> dict[str, float]:
    """Seconds a text of each pass, of one who was just started."""
    async with entrant.open(plan.model) as contender:
        await contender.vectors([plan.texts.of(8)])  # a length that is not asked
        return {
            name: sum(await contender.alone_s(texts)) / len(texts) for name, texts in passes.items()
        }
