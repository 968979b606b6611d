"""A contender that takes a known time, and writes each turn into a shared log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.peers.contender import About, Contender, Size
from bench.peers.models import MINILM, Model
from bench.peers.process import PeerFailed
from bench.peers.roster import Entrant
from bench.texts import MIXED_TEXTS

SIZES = tuple(Size(count) for count in (4, 8, 16))


@dataclass(eq=False)
class FakeContender:
    """`seconds`: for the mixed texts, by size; `alone`: of a text by itself, one after another."""

    name: str
    log: list[tuple[str, Size, str]]
    rows: NDArray[np.float32]
    seconds: dict[int, float] = field(default_factory=lambda: {4: 2.0, 8: 1.0, 16: 4.0})
    alone: tuple[float, ...] = (0.003, 0.001, 0.002)
    fails_at: str = ""  # what it is asked when it fails: start, embed
    awake: bool = True
    starts: int = 0

    @property
    def about(self) -> About:
        return About(self.name, "float32", SIZES, versions={"fake": "1"})

    async def embed_s(self, texts: list[str], size: Size) -> float:
        assert self.awake
        if self.fails_at == "embed":
            raise PeerFailed("out of breath")
        self.log.append((self.name, size, texts[0]))
        return self.seconds[size.count] * len(texts) / MIXED_TEXTS

    async def alone_s(self, texts: list[str]) -> list[float]:
        assert self.awake
        self.log.append((self.name, Size(1), texts[0]))
        return list(self.alone)

    async def vectors(self, texts: list[str]) -> NDArray[np.float32]:
        return self.rows

    async def resume(self) -> None:
        self.awake = True

    async def pause(self) -> None:
        self.awake = False

    def entrant(self, *, ours: bool = False) -> Entrant:
        @asynccontextmanager
        async def open_(model: Model) -> AsyncIterator[Contender]:
            if self.fails_at == "start":
                raise PeerFailed("never began")
            self.starts, self.awake = self.starts + 1, True
            yield self

        return Entrant(self.about, "" if ours else "fakes", open_, (MINILM,), fresh=True)
