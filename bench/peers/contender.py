"""What every engine of a comparison can be asked, whatever is in between."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Size:
    """How texts are handed over: so many texts, or tokens, at a time, by so many clients."""

    count: int
    unit: str = "texts"
    clients: int = 1

    def __str__(self) -> str:
        clients = f" × {self.clients} clients" if self.clients > 1 else ""
        return f"{self.count:,} {self.unit}{clients}"


@dataclass(frozen=True)
class About:
    """`sizes`: to choose the best of. `note`: what it does otherwise than the others."""

    name: str
    dtype: str
    sizes: tuple[Size, ...]
    note: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.name} {self.dtype}"


class Contender(Protocol):
    """Turns texts into vectors."""

    @property
    def about(self) -> About: ...

    async def embed_s(self, texts: list[str], size: Size) -> float:
        """Seconds from the list of texts to their vectors."""
        ...

    async def alone_s(self, texts: list[str]) -> list[float]:
        """Seconds of each text by itself, one after another."""
        ...

    async def vectors(self, texts: list[str]) -> NDArray[np.float32]: ...

    async def resume(self) -> None:
        """Its turn begins."""
        ...

    async def pause(self) -> None:
        """It must not use a processor until its next turn."""
        ...
