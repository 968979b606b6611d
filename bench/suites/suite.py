"""What a suite is: its cases, and how the requests of a case are made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.client import Client
from bench.load import Request
from bench.texts import Texts


@dataclass(frozen=True)
class Case:
    """One line of a suite's table."""

    clients: int
    inputs: int  # per request: texts, or documents of a query
    tokens: int  # per input


@dataclass(frozen=True)
class Suite:
    """`cases` of the sizes asked for, and `prepare`, which draws a request's texts."""

    name: str
    title: str
    cases: Callable[[Sequence[int]], list[Case]]
    prepare: Callable[[Client, Texts, Case], Request]


def embed_request(client: Client, texts: Texts, case: Case) -> Request:
    """One embeddings request of fresh texts."""
    inputs = [texts.of(case.tokens) for _ in range(case.inputs)]

    async def send() -> int:
        return (await client.embed(inputs)).tokens

    return send
