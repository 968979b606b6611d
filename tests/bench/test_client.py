"""The client reads what servers answer, and says what went wrong."""

import numpy as np
import pytest
from stub_embedder import StubEmbedder

from bench.client import Client, Endpoint, RequestFailed
from bench.gate import Reference


@pytest.mark.parametrize("sends_floats", [False, True])
async def test_vectors_come_in_the_order_of_the_texts(
    stub: StubEmbedder, client: Client, reference: Reference, *, sends_floats: bool
) -> None:
    stub.sends_floats = sends_floats
    answer = await client.embed(reference.texts)
    np.testing.assert_array_equal(answer.vectors, reference.vectors)


async def test_scores_come_in_the_order_of_the_documents(
    client: Client, reference: Reference
) -> None:
    answer = await client.rerank(reference.texts[0], reference.texts)
    np.testing.assert_allclose(
        answer.values, reference.vectors @ reference.vectors[0], rtol=0, atol=1e-6
    )


async def test_tokens_are_the_servers_own_count(client: Client) -> None:
    assert (await client.embed(["one two three", "four"])).tokens == 3 + 1 + 2 * 2


async def test_key_is_sent_and_the_url_may_end_in_v1(stub: StubEmbedder) -> None:
    async with Client(Endpoint(f"{stub.url}/v1/", api_key="sk-1"), "stub") as client:
        await client.embed(["a"])
    assert stub.headers[0]["Authorization"] == "Bearer sk-1"


async def test_refusal_is_reported_with_its_reason(stub: StubEmbedder, client: Client) -> None:
    stub.fails_on_inputs = 1
    with pytest.raises(RequestFailed, match=r"503.*out of vectors"):
        await client.embed(["a"])


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>",
        b"[]",
        b'{"data": 1}',
        b'{"data": [{"index": 0, "embedding": "A"}], "results": [{"index": 7}]}',
        b'{"data": [{"index": 0, "embedding": "AAAAAA=="}], "results": []}',
    ],
)
async def test_what_is_no_answer_is_reported(
    stub: StubEmbedder, client: Client, garbage: bytes
) -> None:
    stub.garbage = garbage
    for asking in (client.embed(["a"]), client.rerank("a", ["b"]), client.models()):
        with pytest.raises(RequestFailed, match="answered what cannot be read"):
            await asking


async def test_unreachable_server_is_reported_with_its_address() -> None:
    async with Client(Endpoint("http://127.0.0.1:9")) as client:
        with pytest.raises(RequestFailed) as failure:
            await client.models()
    said = str(failure.value)
    assert said.startswith("GET http://127.0.0.1:9/v1/models: no connection: ")
    assert "Key" not in said
    assert len(said) < 100
