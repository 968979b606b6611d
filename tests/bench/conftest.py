"""The stub server, right until a test makes it wrong."""

from collections.abc import AsyncIterator

import pytest
from stub_embedder import StubEmbedder

from bench.client import Client, Endpoint
from bench.gate import DEFAULT_REFERENCE, Reference, read_reference


@pytest.fixture(scope="session")
def reference() -> Reference:
    return read_reference(DEFAULT_REFERENCE)


@pytest.fixture
async def stub(reference: Reference) -> AsyncIterator[StubEmbedder]:
    known = dict(zip(reference.texts, reference.vectors, strict=True))
    async with StubEmbedder(known) as server:
        yield server


@pytest.fixture
async def client(stub: StubEmbedder) -> AsyncIterator[Client]:
    async with Client(Endpoint(stub.url), "stub") as client:
        yield client
