"""POST /v1/embeddings through the app; the engine's row is (sum, length, first, types)."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import httpx
import numpy as np
import pytest
from fake_engine import BAD_ID, NAN_ID
from fake_service import EMBED, SCORE, FakeService, running_service, spec_of, with_limits, word

from checkpoint.cl100k import RANKS

WaitUntil = Callable[..., Awaitable[None]]


def error_of(response: httpx.Response) -> dict[str, object]:
    error: dict[str, object] = response.json()["error"]
    return error | {"status": response.status_code}


def expected_row(*words: int) -> list[float]:
    return [1 + 2 + sum(w + 3 for w in words), len(words) + 2, 1, 0]


async def test_one_text_gives_one_vector(service: FakeService) -> None:
    response = await service.embed(input=f"{word(5)} {word(7)}")
    assert response.status_code == 200
    assert response.json() == {
        "object": "list",
        "model": EMBED.id,
        "data": [{"object": "embedding", "index": 0, "embedding": expected_row(5, 7)}],
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }
    assert response.headers["x-florilege-dtype"] == "float32"
    assert response.headers["x-florilege-truncated"] == "0"


async def test_answers_come_in_input_order_over_many_shards(service: FakeService) -> None:
    numbers = [i % 400 for i in range(300)]
    response = await service.embed(input=[" ".join([word(n)] * (1 + n % 9)) for n in numbers])
    data = response.json()["data"]
    assert [item["index"] for item in data] == list(range(300))
    assert [item["embedding"] for item in data] == [
        expected_row(*[n] * (1 + n % 9)) for n in numbers
    ]
    assert len(service.engine.batches) > 10


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings", "/v1/embeddings/"])
async def test_url_may_lack_the_version_or_end_in_a_slash(service: FakeService, path: str) -> None:
    response = await service.client.post(path, json={"model": "short", "input": word(1)})
    assert response.status_code == 200
    assert response.json()["model"] == EMBED.id


async def test_base64_is_the_rows_float32(service: FakeService) -> None:
    response = await service.embed(input=word(5), encoding_format="base64")
    data = base64.b64decode(response.json()["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(data, "<f4"), expected_row(5))


async def test_model_that_normalizes_gives_unit_vectors_unless_asked_not_to() -> None:
    spec = spec_of(EMBED.id, normalizes=True)
    async with running_service(spec) as service:
        unit = (await service.embed(input=word(5))).json()["data"][0]["embedding"]
        raw = (await service.embed(input=word(5), normalize=False)).json()["data"][0]["embedding"]
    assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-6)
    assert raw == expected_row(5)


async def test_dimensions_are_the_native_ones_or_those_the_model_was_trained_for() -> None:
    spec = spec_of(EMBED.id, matryoshka=(2,), normalizes=True)
    async with running_service(spec) as service:
        native = await service.embed(input=word(5), dimensions=4)
        cut = await service.embed(input=word(5), dimensions=2)
        wrong = await service.embed(input=word(5), dimensions=3)
    assert len(native.json()["data"][0]["embedding"]) == 4
    row = cut.json()["data"][0]["embedding"]
    assert len(row) == 2
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)
    assert (error_of(wrong)["status"], error_of(wrong)["param"]) == (400, "dimensions")


async def test_dimensions_of_a_model_without_choice_are_refused(service: FakeService) -> None:
    assert (await service.embed(input=word(5), dimensions=4)).status_code == 200
    error = error_of(await service.embed(input=word(5), dimensions=2))
    assert error["message"] == "This model does not support specifying dimensions."


async def test_over_long_input_is_refused_with_its_place_and_the_limit(
    service: FakeService,
) -> None:
    error = error_of(await service.embed(input=[word(1), " ".join([word(2)] * 31)]))
    assert (error["status"], error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == "input[1]"
    assert "maximum context length is 32 tokens, however you requested 33" in str(error["message"])
    assert not service.engine.batches


async def test_over_long_input_is_cut_and_counted_on_request(service: FakeService) -> None:
    texts = [word(1), " ".join([word(2)] * 40), " ".join([word(3)] * 40)]
    response = await service.embed(input=texts, truncate=True)
    assert response.headers["x-florilege-truncated"] == "2"
    assert response.json()["data"][1]["embedding"] == expected_row(*[2] * 30)
    assert service.value("truncated_inputs_total", model=EMBED.id) == 2


async def test_token_arrays_are_read_as_cl100k_by_default(service: FakeService) -> None:
    # cl100k: "w" is 86, "5" is 20, " w" is 289.
    flat = await service.embed(input=[86, 20])
    many = await service.embed(input=[[86, 20], [86, 20, 289, 22]])
    assert flat.json()["data"][0]["embedding"] == expected_row(5)
    assert [d["embedding"] for d in many.json()["data"]] == [expected_row(5), expected_row(5, 7)]


async def test_native_ids_are_used_as_given(service: FakeService) -> None:
    response = await service.embed(input=[[8, 9, 10]], token_input="native")
    assert response.json()["data"][0]["embedding"] == [27, 3, 8, 0]


@pytest.mark.parametrize(
    ("ids", "policy", "param"),
    [
        ([1, -1], "native", "input[0]"),
        ([[1], [2, 503]], "native", "input[1]"),
        ([[86], [RANKS]], "cl100k_decode", "input[1]"),
        ([[1], []], "native", "input[1]"),
        ([[1]], "reject", "input"),
    ],
)
async def test_id_that_is_none_is_refused_by_place(
    service: FakeService, ids: object, policy: str, param: str
) -> None:
    error = error_of(await service.embed(input=ids, token_input=policy))
    assert (error["status"], error["param"]) == (400, param)
    assert not service.engine.batches


async def test_policy_of_the_model_holds_where_the_request_says_nothing() -> None:
    async with running_service(spec_of(EMBED.id, token_input="native")) as service:
        response = await service.embed(input=[8])
    assert response.json()["data"][0]["embedding"] == [8, 1, 8, 0]


async def test_default_prompt_is_applied_and_counted() -> None:
    spec = spec_of(EMBED.id, prompts={"query": f"{word(9)} "}, default_prompt="query")
    async with running_service(spec) as service:
        response = await service.embed(input=word(5))
    assert response.json()["data"][0]["embedding"] == expected_row(9, 5)
    assert response.json()["usage"]["prompt_tokens"] == 4


@pytest.mark.parametrize("value", ["", [""], ["", word(1)]])
async def test_empty_text_is_embedded_as_its_special_tokens(
    service: FakeService, value: object
) -> None:
    response = await service.embed(input=value)
    assert response.json()["data"][0]["embedding"] == expected_row()


async def test_row_that_is_not_finite_fails_its_own_request_alone(service: FakeService) -> None:
    bad = asyncio.create_task(service.embed(input=[[5], [NAN_ID]], token_input="native"))
    good = await service.embed(input=word(5))
    error = error_of(await bad)
    assert good.status_code == 200
    assert error["status"] == 400  # 667 is beyond this vocabulary: the range check comes first


async def test_failed_sequences_are_named_and_their_neighbours_answered() -> None:
    async with running_service(spec_of(EMBED.id, vocab_size=1000)) as service:
        calls = [
            service.embed(input=[[5], [NAN_ID], [6]], token_input="native"),
            service.embed(input=[[5], [6], [BAD_ID]], token_input="native"),
            service.embed(input=[[5], [6]], token_input="native"),
        ]
        nan, bad, good = await asyncio.gather(*calls)
    assert (error_of(nan)["status"], error_of(nan)["code"]) == (500, "non_finite_output")
    assert error_of(nan)["param"] == "input[1]"
    assert (error_of(bad)["status"], error_of(bad)["code"]) == (500, "engine_failed")
    assert error_of(bad)["param"] == "input[2]"
    assert [d["embedding"][0] for d in good.json()["data"]] == [5, 6]


async def test_reranker_gives_no_embeddings(service: FakeService) -> None:
    response = await service.client.post(
        "/v1/embeddings", json={"model": SCORE.id, "input": word(1)}
    )
    assert (error_of(response)["status"], error_of(response)["param"]) == (400, "model")


async def test_unknown_model_is_404_in_openais_words(service: FakeService) -> None:
    error = error_of(await service.embed(model="gpt-9", input=word(1)))
    assert error == {
        "status": 404,
        "message": "The model `gpt-9` does not exist or you do not have access to it.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[1]", 400),
        (b'"text"', 400),
        (b"\xff", 400),
        (b'{"model": "short", "input": "\\ud800"}', 400),
        (b'{"model": "short", "input": NaN}', 400),
        (b"[" * 100_000, 400),
    ],
)
async def test_body_that_is_no_json_object_is_refused(
    service: FakeService, content: bytes, status: int
) -> None:
    response = await service.client.post("/v1/embeddings", content=content)
    assert error_of(response)["status"] == status
    assert error_of(response)["type"] == "invalid_request_error"


async def test_json_is_accepted_under_any_content_type_and_named_otherwise(
    service: FakeService,
) -> None:
    headers = {"content-type": "text/plain"}
    good = await service.client.post(
        "/v1/embeddings", content=b'{"model": "short", "input": "w1"}', headers=headers
    )
    bad = await service.client.post("/v1/embeddings", content=b"a=1", headers=headers)
    assert good.status_code == 200
    assert (error_of(bad)["status"], error_of(bad)["code"]) == (415, "unsupported_content_type")


async def test_compressed_body_is_refused(service: FakeService) -> None:
    response = await service.client.post(
        "/v1/embeddings", content=b"{}", headers={"content-encoding": "gzip"}
    )
    error = error_of(response)
    assert (error["status"], error["code"]) == (415, "unsupported_content_encoding")


async def test_too_large_a_body_is_refused_announced_or_not() -> None:
    async with running_service(config=with_limits(max_body_bytes=1_000)) as service:
        announced = await service.embed(input="a" * 2_000)

        async def chunks():  # type: ignore[no-untyped-def]
            for _ in range(20):
                yield b"a" * 100

        streamed = await service.client.post("/v1/embeddings", content=chunks())
    for response in (announced, streamed):
        assert error_of(response)["status"] == 413
        assert "Maximum content size limit (1000) exceeded" in str(error_of(response)["message"])


async def test_too_many_items_are_refused_before_they_are_parsed() -> None:
    async with running_service(config=with_limits(max_request_tokens=1_000)) as service:
        ids = error_of(await service.embed(input=[1] * 2_500))
        junk = error_of(await service.embed(input="w1", junk=[[]] * 2_500))
        commas = await service.embed(input="," * 1_500, truncate=True)
    assert (ids["status"], ids["code"]) == (400, "max_tokens_per_request")
    assert (junk["status"], junk["code"]) == (400, "max_tokens_per_request")
    assert commas.status_code == 200


async def test_body_that_does_not_arrive_in_time_is_given_up() -> None:
    async def trickle():  # type: ignore[no-untyped-def]
        yield b'{"model"'
        await asyncio.Event().wait()

    async with running_service(config=with_limits(body_timeout_s=0.05)) as service:
        response = await service.client.post("/v1/embeddings", content=trickle())
    assert error_of(response)["status"] == 408


async def test_too_many_tokens_and_inputs_are_refused() -> None:
    config = with_limits(max_request_tokens=10, max_inputs=3)
    async with running_service(config=config) as service:
        tokens = error_of(await service.embed(input=" ".join([word(1)] * 9)))
        inputs = error_of(await service.embed(input=[word(1)] * 4))
    assert (tokens["status"], tokens["code"]) == (400, "max_tokens_per_request")
    assert tokens["message"] == "Requested 11 tokens, max 10 tokens per request"
    assert "array length must be 3 or less" in str(inputs["message"])


async def test_backlog_over_the_limit_is_refused_with_a_time_to_come_back(
    service: FakeService, wait_until: WaitUntil
) -> None:
    warm = [service.embed(input=" ".join([word(1)] * 30)) for _ in range(4)]
    await asyncio.gather(*warm)  # batches at least half full: the speed, 1,000 tokens/s, is known
    for worker in service.workers:
        await worker.announce()
    service.engine.gate.clear()
    ids = [[5] * 32] * 400  # 12,800 tokens: 12.8 s of work
    big = asyncio.create_task(service.embed(input=ids, token_input="native"))
    await wait_until(lambda: service.transport.outstanding > 10)
    response = await service.embed(input=word(1))
    error = error_of(response)
    assert (error["status"], error["code"]) == (503, "server_is_overloaded")
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert service.value("shed_total", model=EMBED.id, reason="queue") == 1
    service.engine.gate.set()
    assert (await big).status_code == 200


async def test_deadline_is_kept(service: FakeService) -> None:
    service.engine.gate.clear()
    response = await service.client.post(
        "/v1/embeddings",
        json={"model": EMBED.id, "input": word(1)},
        headers={"x-florilege-timeout-ms": "30"},
    )
    assert (error_of(response)["status"], error_of(response)["code"]) == (504, "deadline_exceeded")
    assert response.headers["x-should-retry"] == "false"


async def test_large_answers_are_encoded_like_small_ones(service: FakeService) -> None:
    from api.routes import embeddings

    small = await service.embed(input=[word(i) for i in range(20)])
    before, embeddings.LARGE = embeddings.LARGE, 1
    try:
        large = await service.embed(input=[word(i) for i in range(20)])
    finally:
        embeddings.LARGE = before
    assert small.content == large.content
