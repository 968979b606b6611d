"""Prompts, output types and templates through the whole app."""

import base64
from typing import Any

import httpx
import numpy as np
import pytest
from fake_service import EMBED, SCORE, FakeService, running_service, spec_of, with_limits, word

PROMPTS = {
    "query": f"{word(100)} ",
    "document": f"{word(200)} ",
    "clustering": f"{word(300)} ",
}
PROMPTED = spec_of(EMBED.id, prompts=PROMPTS, aliases=("short",))


async def first_word(service: FakeService, **body: Any) -> int | None:
    """The number of the first word that reached the engine behind [CLS], if a prompt's."""
    service.engine.batches.clear()
    headers = body.pop("headers", None)
    body = {"model": EMBED.id, "input": word(1)} | body
    response = await service.client.post("/v1/embeddings", json=body, headers=headers)
    assert response.status_code == 200, response.text
    number = int(service.engine.batches[0].input_ids[1]) - 3
    return None if number == 1 else number


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, None),
        ({"input_type": "query"}, 100),
        ({"input_type": "search_query"}, 100),
        ({"input_type": "search_document"}, 200),
        ({"task": "retrieval.passage"}, 200),
        ({"task_type": "RETRIEVAL_QUERY"}, 100),
        ({"input_type": "clustering"}, 300),
        ({"prompt_name": "clustering"}, 300),
        ({"prompt": f"{word(50)} "}, 50),
        ({"headers": {"x-input-type": "query"}}, 100),
        ({"model": f"{EMBED.id}-query"}, 100),
        ({"model": "short-document"}, 200),
        # The most exact one counts.
        ({"prompt": f"{word(50)} ", "prompt_name": "query", "input_type": "document"}, 50),
        ({"prompt_name": "clustering", "input_type": "document"}, 300),
        ({"input_type": "document", "headers": {"x-input-type": "query"}}, 200),
        ({"model": "short-query", "input_type": "document"}, 200),
        # Of a use the model has no prompt for.
        ({"input_type": "classification"}, None),
    ],
)
async def test_prompt_is_the_one_the_request_asks_for(
    body: dict[str, Any], expected: int | None
) -> None:
    async with running_service(PROMPTED) as service:
        assert await first_word(service, **body) == expected


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input_type": "nonsense"}, "input_type"),
        ({"prompt_name": "nonsense"}, "prompt_name"),
        ({"instruction": "find flowers"}, "instruction"),
    ],
)
async def test_prompt_the_model_does_not_know_is_refused(body: dict[str, str], param: str) -> None:
    async with running_service(PROMPTED) as service:
        response = await service.embed(input=word(1), **body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert "nonsense" not in error["message"]


async def test_known_use_of_a_model_without_prompts_is_no_error(service: FakeService) -> None:
    assert await first_word(service, input_type="search_query") is None


async def test_prompted_model_is_listed_under_its_uses() -> None:
    async with running_service(PROMPTED) as service:
        (model,) = (await service.client.get("/v1/models")).json()["data"]
        assert f"{EMBED.id}-query" in model["aliases"]
        assert "short-document" in model["aliases"]
        found = await service.client.get("/v1/models/short-query")
    assert found.json()["id"] == EMBED.id


async def test_prompt_left_out_of_the_pooling_becomes_spans() -> None:
    async with running_service(spec_of(EMBED.id, prompts=PROMPTS, include_prompt=False)) as service:
        await service.embed(input=[word(1), ""], prompt_name="query")
        spans = service.engine.batches[0].spans
        await service.embed(input=[word(1)])
        without = service.engine.batches[-1].spans
    assert spans is not None
    np.testing.assert_array_equal(spans, [[0, 2, 4], [1, 2, 3]])  # behind [CLS] and the prompt
    assert without is None


async def test_text_is_cut_on_the_side_that_is_asked_for(service: FakeService) -> None:
    text = " ".join(word(i) for i in range(40))
    for body, first in [
        ({"truncate": True}, 0),
        ({"truncate": "END"}, 0),
        ({"truncate": "START"}, 10),
        ({"truncation": True, "truncation_direction": "left"}, 10),
    ]:
        service.engine.batches.clear()
        response = await service.embed(input=text, **body)
        assert response.headers["x-florilege-truncated"] == "1"
        assert service.engine.batches[0].input_ids[1] == first + 3
    assert (await service.embed(input=text, truncate="NONE")).status_code == 400


async def test_text_may_be_cut_to_fewer_tokens_than_the_model_takes(service: FakeService) -> None:
    text = " ".join(word(i) for i in range(40))
    for limit, tokens in [(8, 8), (-1, 32), (99, 32)]:
        response = await service.embed(input=text, truncate_prompt_tokens=limit)
        assert response.json()["usage"]["prompt_tokens"] == tokens


class TestOutputTypes:
    """Rows of the fake engine for w5: (11, 3, 1, 0)."""

    SPEC = spec_of(EMBED.id, dim=4)

    async def embedding(self, **body: Any) -> Any:
        async with running_service(self.SPEC) as service:
            response = await service.embed(input=word(5), **body)
        assert response.status_code == 200, response.text
        return response.json()["data"][0]["embedding"]

    @pytest.mark.parametrize(
        "body",
        [{"output_dtype": "int8"}, {"embedding_type": "int8"}, {"embedding_type": ["int8"]}],
    )
    async def test_int8_is_a_list_of_integers(self, body: dict[str, Any]) -> None:
        assert await self.embedding(**body) == [127, 35, 12, 0]

    async def test_base64_holds_the_bytes_of_the_type(self) -> None:
        for body in (
            {"encoding_format": "base64", "output_dtype": "int8"},
            {"encoding_format": "base64_int8"},
        ):
            data = base64.b64decode(await self.embedding(**body))
            np.testing.assert_array_equal(np.frombuffer(data, np.int8), [127, 35, 12, 0])

    async def test_bits_need_whole_bytes(self) -> None:
        async with running_service(self.SPEC) as service:
            response = await service.embed(input=word(5), output_dtype="binary")
        assert response.json()["error"]["param"] == "dimensions"

    @pytest.mark.parametrize(
        "body",
        [
            {"encoding_format": "base64_int8", "output_dtype": "float"},
            {"output_dtype": "int8", "embedding_type": "binary"},
        ],
    )
    async def test_contradicting_types_are_refused(self, body: dict[str, Any]) -> None:
        async with running_service(self.SPEC) as service:
            response = await service.embed(input=word(5), **body)
        assert response.json()["error"]["param"] == "output_dtype"

    async def test_two_numbers_of_dimensions_are_refused(self) -> None:
        async with running_service(self.SPEC) as service:
            response = await service.embed(input=word(5), dimensions=4, output_dimension=2)
        assert response.json()["error"]["param"] == "output_dimension"

    async def test_dimensions_have_two_names(self) -> None:
        async with running_service(spec_of(EMBED.id, matryoshka=(2,))) as service:
            response = await service.embed(input=word(5), output_dimension=2)
        assert len(response.json()["data"][0]["embedding"]) == 2


async def test_quantizer_of_the_model_gives_its_integers_as_floats() -> None:
    async with running_service(spec_of(EMBED.id, quantizer="tanh_int8")) as service:
        floats = await service.embed(input=word(5))
        integers = await service.embed(input=word(5), encoding_format="base64_int8")
    assert floats.json()["data"][0]["embedding"] == [127.0, 126.0, 97.0, 0.0]
    data = base64.b64decode(integers.json()["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(data, np.int8), [127, 126, 97, 0])


class TestTemplate:
    TEMPLATE = "w10\nw11 {instruction} w12 {query} w13 {document} w14"
    SPEC = spec_of(
        SCORE.id, task="score", dim=1, pooling=None, template=TEMPLATE, instruction="w20"
    )

    async def ids(self, **body: Any) -> tuple[httpx.Response, list[int]]:
        async with running_service(self.SPEC) as service:
            response = await service.client.post(
                "/v1/rerank", json={"query": word(1), "documents": [word(2)]} | body
            )
            return response, (service.engine.batches[0].input_ids - 3).tolist()

    async def test_pair_is_framed_by_the_template_alone(self) -> None:
        response, ids = await self.ids()
        assert ids == [10, 11, 20, 12, 1, 13, 2, 14]
        assert response.json()["usage"]["prompt_tokens"] == 8

    async def test_instruction_of_the_request_takes_the_place_of_the_default(self) -> None:
        _, ids = await self.ids(instruction=word(30))
        assert ids == [10, 11, 30, 12, 1, 13, 2, 14]


async def test_instruction_is_refused_by_a_model_that_takes_none(service: FakeService) -> None:
    response = await service.rerank(query=word(1), documents=[word(2)], instruction=word(3))
    assert (response.status_code, response.json()["error"]["param"]) == (400, "instruction")


@pytest.mark.parametrize("pooling", ["sparse", "tokens"])
async def test_model_without_one_vector_a_text_answers_neither_route(pooling: str) -> None:
    async with running_service(spec_of(EMBED.id, pooling=pooling)) as service:
        embed = await service.embed(input=word(1))
        rerank = await service.client.post(
            "/v1/rerank", json={"query": word(1), "documents": [word(2)]}
        )
    assert [r.json()["error"]["param"] for r in (embed, rerank)] == ["model", "model"]


async def test_prompt_that_is_repeated_for_every_input_counts_each_time() -> None:
    config = with_limits(max_body_bytes=10_000)
    async with running_service(PROMPTED, SCORE, config=config) as service:
        prompt = await service.embed(input=["a"] * 50, prompt="b" * 500)
        fine = await service.embed(input=["a"] * 2, prompt="b" * 500, truncate=True)
    assert (prompt.status_code, prompt.json()["error"]["code"]) == (400, "max_tokens_per_request")
    assert fine.status_code == 200


async def test_query_under_a_template_counts_with_every_text() -> None:
    config = with_limits(max_body_bytes=10_000)
    async with running_service(TestTemplate.SPEC, config=config) as service:
        body = {"query": "q" * 400, "documents": ["a"] * 50}
        response = await service.client.post("/v1/rerank", json=body)
    assert response.json()["error"]["code"] == "max_tokens_per_request"
