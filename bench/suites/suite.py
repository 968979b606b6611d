"""What a suite is: its cases, and how the requests of a case are made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.client import Client
from bench.inputs import Inputs
from bench.load import Request
from bench.texts import Size


@dataclass(frozen=True)
class Case:
    """One line of a suite's table."""

    clients: int
    inputs: int  # per request: texts, or documents of a query
    tokens: Size  # per input

    def __str__(self) -> str:
        return f"{self.clients} × {self.inputs} × {self.tokens}"


@dataclass(frozen=True)
class Suite:
    """`cases` of the sizes asked for, and `prepare`, which draws a request's inputs.

    `sizes`: where none are asked for; those above the model's limit become the limit.
    `fewest`: requests that are timed at least.
    """

    name: str
    title: str
    sizes: tuple[Size, ...]
    cases: Callable[[Sequence[Size]], list[Case]]
    prepare: Callable[[Client, Inputs, Case], Request]
    fewest: int = 30


def within(sizes: Sequence[Size], limit: int) -> tuple[Size, ...]:
    """The sizes, cut to `limit` tokens, each once."""
    cut = (min(size, limit) if isinstance(size, int) else size for size in sizes)
    return tuple(dict.fromkeys(cut))


def embed_request(client: Client, inputs: Inputs, case: Case) -> Request:
    """One embeddings request of fresh inputs."""
    drawn = [inputs.of(case.tokens) for _ in range(case.inputs)]

    async def send() -> int:
        return (await client.embed(drawn)).tokens

    return send
