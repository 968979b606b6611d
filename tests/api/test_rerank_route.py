"""The rerank and score routes through the whole app."""

import math

import httpx
import numpy as np
import pytest
from fake_engine import NAN_ID
from fake_service import EMBED, SCORE, FakeService, running_service, spec_of, word

DOCUMENTS = [word(4), word(2), word(9)]


def ranked(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    return [result["index"] for result in response.json()["results"]]


def logit(query: int, document: int) -> float:
    """The fake engine's first column: the sum of [CLS] q [SEP] d [SEP]."""
    return 1 + 2 + 2 + (query + 3) + (document + 3)


async def test_documents_are_ranked_by_their_scores(service: FakeService) -> None:
    response = await service.rerank(query=word(1), documents=DOCUMENTS, raw_scores=True)
    assert ranked(response) == [2, 0, 1]
    body = response.json()
    assert [r["relevance_score"] for r in body["results"]] == [logit(1, d) for d in (9, 4, 2)]
    assert body["data"] == body["results"]
    assert body["model"] == SCORE.id
    assert body["usage"] == {"prompt_tokens": 15, "total_tokens": 15}
    assert body["meta"]["billed_units"] == {
        "search_units": 1,
        "input_tokens": 15,
        "total_tokens": 15,
    }
    assert body["meta"]["tokens"] == {"input_tokens": 15, "output_tokens": 0}
    assert "document" not in body["results"][0]
    assert "x-florilege-scoring" not in response.headers


async def test_scores_lie_between_zero_and_one_unless_raw(service: FakeService) -> None:
    response = await service.rerank(query=word(1), documents=DOCUMENTS)
    scores = [r["relevance_score"] for r in response.json()["results"]]
    assert scores[0] == pytest.approx(1 / (1 + math.exp(-logit(1, 9))))
    assert all(0 <= score <= 1 for score in scores)


async def test_ranking_is_by_logit_where_sigmoids_tie(service: FakeService) -> None:
    documents = [" ".join([word(400)] * n) for n in (1, 3, 2)]
    response = await service.rerank(query=word(400), documents=documents)
    assert len({r["relevance_score"] for r in response.json()["results"]}) == 1
    assert ranked(response) == [1, 2, 0]


async def test_equal_documents_are_ranked_by_place(service: FakeService) -> None:
    response = await service.rerank(query=word(1), documents=[word(5)] * 4)
    assert ranked(response) == [0, 1, 2, 3]


@pytest.mark.parametrize(("limit", "count"), [(None, 3), (0, 3), (2, 2), (9, 3)])
@pytest.mark.parametrize("name", ["top_n", "top_k"])
async def test_limit_keeps_the_best(
    service: FakeService, name: str, limit: int | None, count: int
) -> None:
    response = await service.rerank(query=word(1), documents=DOCUMENTS, **{name: limit})
    assert ranked(response) == [2, 0, 1][:count]


async def test_documents_are_given_back_as_objects(service: FakeService) -> None:
    documents = [word(4), {"text": word(9), "id": 7}]
    response = await service.rerank(query=word(1), documents=documents, return_documents=True)
    returned = [result["document"] for result in response.json()["results"]]
    assert returned == [{"text": word(9), "id": 7}, {"text": word(4)}]


async def test_document_too_deep_to_be_given_back_is_refused(service: FakeService) -> None:
    deep: dict[str, object] = {}
    for _ in range(600):
        deep = {"x": deep}
    documents = [{"text": word(4), "deep": deep}]
    response = await service.rerank(query=word(1), documents=documents, return_documents=True)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "documents")
    assert (await service.rerank(query=word(1), documents=documents)).status_code == 200


async def test_token_types_reach_the_engine(service: FakeService) -> None:
    await service.rerank(query=word(1), documents=[word(4)])
    types = service.engine.batches[0].type_ids
    assert types is not None
    np.testing.assert_array_equal(types, [0, 0, 0, 1, 1])


async def test_long_document_is_cut_and_counted(service: FakeService) -> None:
    documents = [word(4), " ".join([word(9)] * 60)]
    response = await service.rerank(query=word(1), documents=documents, raw_scores=True)
    assert response.headers["x-florilege-truncated"] == "1"
    assert response.json()["usage"]["prompt_tokens"] == 5 + 32


async def test_long_document_is_refused_where_truncation_is_forbidden(
    service: FakeService,
) -> None:
    documents = [word(4), " ".join([word(9)] * 60)]
    response = await service.rerank(query=word(1), documents=documents, truncation=False)
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "documents[1]")


async def test_documents_have_a_limit_of_their_own_on_request(service: FakeService) -> None:
    response = await service.rerank(
        query=word(1), documents=[" ".join([word(9)] * 20)], max_tokens_per_doc=3
    )
    assert response.json()["usage"]["prompt_tokens"] == 4 + 3


async def test_long_query_is_refused(service: FakeService) -> None:
    response = await service.rerank(query=" ".join([word(1)] * 40), documents=DOCUMENTS)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == "query"


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank", "/v1/rerank/"])
async def test_every_url_of_rerank_serves_and_the_sole_reranker_needs_no_name(
    service: FakeService, path: str
) -> None:
    response = await service.client.post(path, json={"query": word(1), "documents": DOCUMENTS})
    assert ranked(response) == [2, 0, 1]


async def test_model_must_be_named_among_several_rerankers() -> None:
    async with running_service(spec_of("a", task="score"), spec_of("b", task="score")) as service:
        response = await service.client.post(
            "/v1/rerank", json={"query": word(1), "documents": DOCUMENTS}
        )
    assert response.json()["error"]["message"] == "you must provide a model parameter"


async def test_tei_gets_its_bare_list_with_every_text(service: FakeService) -> None:
    response = await service.client.post(
        "/rerank",
        json={"query": word(1), "texts": DOCUMENTS, "raw_scores": True, "return_text": True},
    )
    assert response.json() == [
        {"index": i, "score": logit(1, d), "text": word(d)} for i, d in ((2, 9), (0, 4), (1, 2))
    ]


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
async def test_vllm_gets_scores_in_the_order_of_its_texts(service: FakeService, path: str) -> None:
    one = await service.client.post(
        path, json={"text_1": word(1), "text_2": DOCUMENTS, "use_activation": False}
    )
    many = await service.client.post(
        path,
        json={"queries": [word(1), word(7)], "documents": [word(4), word(2)], "raw_scores": True},
    )
    assert [d["score"] for d in one.json()["data"]] == [logit(1, d) for d in (4, 2, 9)]
    assert [d["score"] for d in many.json()["data"]] == [logit(1, 4), logit(7, 2)]
    assert one.json()["data"][0]["object"] == "score"


async def test_fault_in_a_later_pair_is_named_by_its_place(service: FakeService) -> None:
    response = await service.client.post(
        "/v1/score",
        json={
            "text_1": [word(1), word(2)],
            "text_2": [word(4), " ".join([word(9)] * 60)],
            "truncation": False,
        },
    )
    assert response.json()["error"]["param"] == "text_2[1]"


class TestBiEncoder:
    """An embedding model ranks by cosine."""

    async def rerank(self, service: FakeService, **body: object) -> httpx.Response:
        return await service.client.post("/v1/rerank", json={"model": EMBED.id} | body)

    async def test_score_is_the_raw_cosine(self, service: FakeService) -> None:
        response = await self.rerank(service, query=word(1), documents=DOCUMENTS)
        rows = {d: np.array([3 + d + 3, 3, 1, 0], float) for d in (1, 4, 2, 9)}
        cosines = {
            d: rows[1] @ rows[d] / np.linalg.norm(rows[1]) / np.linalg.norm(rows[d])
            for d in (4, 2, 9)
        }
        assert response.headers["x-florilege-scoring"] == "cosine"
        assert ranked(response) == [1, 0, 2]
        scores = [r["relevance_score"] for r in response.json()["results"]]
        np.testing.assert_allclose(scores, [cosines[2], cosines[4], cosines[9]], rtol=1e-6)

    async def test_prompts_of_query_and_document_are_applied(self) -> None:
        prompts = {"query": f"{word(100)} ", "passage": f"{word(200)} "}
        async with running_service(spec_of(EMBED.id, prompts=prompts)) as service:
            response = await self.rerank(service, query=word(1), documents=[word(2)])
            ids = np.concatenate([batch.input_ids for batch in service.engine.batches])
        assert response.json()["usage"]["prompt_tokens"] == 8
        np.testing.assert_array_equal(ids, [1, 103, 4, 2, 1, 203, 5, 2])

    async def test_long_query_is_refused_and_long_document_cut(self, service: FakeService) -> None:
        long = " ".join([word(9)] * 60)
        refused = await self.rerank(service, query=long, documents=DOCUMENTS)
        cut = await self.rerank(service, query=word(1), documents=[word(2), long])
        assert refused.json()["error"]["param"] == "query"
        assert cut.headers["x-florilege-truncated"] == "1"

    async def test_documents_have_a_limit_of_their_own(self, service: FakeService) -> None:
        long = " ".join([word(9)] * 20)
        response = await self.rerank(service, query=word(1), documents=[long], max_tokens_per_doc=3)
        assert response.json()["usage"]["prompt_tokens"] == 3 + 5
        assert response.headers["x-florilege-truncated"] == "1"

    async def test_several_queries_keep_to_their_own_texts(self, service: FakeService) -> None:
        response = await service.client.post(
            "/v1/score",
            json={"model": EMBED.id, "text_1": [word(1), word(7)], "text_2": [word(1), word(7)]},
        )
        np.testing.assert_allclose([d["score"] for d in response.json()["data"]], [1, 1], rtol=1e-6)

    async def test_long_query_is_named_as_it_was_sent(self, service: FakeService) -> None:
        body = {"model": EMBED.id, "queries": " ".join([word(9)] * 60), "items": [word(1)]}
        response = await service.client.post("/v1/score", json=body)
        assert response.json()["error"]["param"] == "queries"

    async def test_failed_row_is_named(self) -> None:
        spec = spec_of(EMBED.id, vocab_size=1000)
        async with running_service(spec) as service:
            service.engine.bad_row = lambda ids: word_in(ids, 9)
            response = await self.rerank(service, query=word(1), documents=DOCUMENTS)
            query = await self.rerank(service, query=word(9), documents=[word(2)])
        assert response.json()["error"]["param"] == "documents[2]"
        assert query.json()["error"]["param"] == "query"


def word_in(ids: np.ndarray, number: int) -> bool:
    return number + 3 in ids


def test_fake_id_is_beyond_the_fake_words() -> None:
    assert NAN_ID > 503
