"""Plain curl against a real server."""

import json
import subprocess
from typing import Any

import httpx
import pytest
from server_process import ServerProcess

MODEL = "all-MiniLM-L6-v2"
JSON = "content-type: application/json"


def curl(server: ServerProcess, path: str, *arguments: str) -> tuple[int, Any]:
    command = ["curl", "-s", "-w", "\n%{http_code}", f"{server.url}{path}", *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    body, _, status = output.rpartition("\n")
    return int(status), json.loads(body)


def test_embeddings_are_floats_without_being_asked_for(server: ServerProcess) -> None:
    body = json.dumps({"model": MODEL, "input": "This is an example sentence"})
    status, answer = curl(server, "/v1/embeddings", "-d", body)
    assert status == 200
    assert answer["data"][0]["embedding"][:3] == pytest.approx(
        [0.0676569, 0.0634959, 0.0487131], abs=1e-5
    )


def test_the_line_that_the_banner_shows_works(server: ServerProcess) -> None:
    line = next(line for line in server.stderr if line.strip().startswith("curl "))
    output = subprocess.run(line, shell=True, capture_output=True, check=True).stdout  # noqa: S602
    assert json.loads(output)["object"] == "list"


def test_cross_encoder_reranks_with_its_own_scores(server: ServerProcess) -> None:
    request = {
        "query": "what is a rose",
        "documents": ["a truck", {"text": "a flower", "id": 3}, "x"],
        "return_documents": True,
    }
    status, answer = curl(server, "/v1/rerank", "-d", json.dumps(request))
    assert status == 200
    assert answer["model"] == "sharp-reranker"
    scores = [result["relevance_score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert {"text": "a flower", "id": 3} in [result["document"] for result in answer["results"]]


def test_embedding_model_reranks_by_cosine(server: ServerProcess) -> None:
    request = {
        "model": MODEL,
        "query": "Which flower smells best?",
        "documents": ["Trucks need diesel.", "Roses have a sweet scent.", "The stock fell."],
        "top_n": 2,
    }
    status, answer = curl(server, "/v1/rerank", "-d", json.dumps(request))
    assert status == 200
    assert answer["results"][0]["index"] == 1
    assert len(answer["results"]) == 2


@pytest.mark.parametrize(
    ("path", "arguments", "status", "text"),
    [
        ("/v1/embeddings", ["-d", "{", "-H", JSON], 400, "could not parse the JSON"),
        ("/v1/embeddings", ["-d", "{"], 415, "only accepts 'application/json'"),
        ("/v1/embeddings", [], 405, "Not allowed to GET"),
        ("/v1/nothing", ["-d", "{}"], 404, "Invalid URL (POST /v1/nothing)"),
        ("/v1/embeddings", ["-d", "{}", "-H", "content-encoding: gzip"], 415, "uncompressed"),
        ("/v1/embeddings", ["-d", "{}"], 400, "you must provide a model parameter"),
    ],
)
def test_errors_are_json_in_openais_shape(
    server: ServerProcess, path: str, arguments: list[str], status: int, text: str
) -> None:
    found, answer = curl(server, path, *arguments)
    assert found == status
    assert text in answer["error"]["message"]


def test_health_and_metrics_are_on_the_admin_port(server: ServerProcess) -> None:
    for url in (server.url, server.admin_url):
        for path in ("/health/live", "/health/ready"):
            assert httpx.get(f"{url}{path}").status_code == 200
    assert "florilege_requests_total" in httpx.get(f"{server.admin_url}/metrics").text
    assert httpx.get(f"{server.url}/metrics").status_code == 404
