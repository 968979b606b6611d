"""Whole runs against the stub, and what they leave behind."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from pydantic import TypeAdapter
from stub_embedder import StubEmbedder

from bench.client import RequestFailed
from bench.gate import CheckFailed
from bench.measure import Effort
from bench.options import DEFAULT_SUITES, parse
from bench.progress import Bar
from bench.report import markdown
from bench.results import Results, write
from bench.run import run
from bench.suites import SUITES

ROOT = Path(__file__).parents[2]
RESULTS = TypeAdapter(Results)


async def small_run(*arguments: str) -> Results:
    """Enough requests to pass through every step."""
    options = parse([*arguments, "--sizes", "16,24"])
    return await run(replace(options, effort=Effort(0.0, 0.0, 3)), Bar())


@pytest.mark.parametrize("name", SUITES)
async def test_suite_measures_each_of_its_cases(stub: StubEmbedder, name: str) -> None:
    results = await small_run(name, "--url", stub.url)
    cases = SUITES[name].cases([16, 24])
    assert [(row.clients, row.inputs, row.tokens) for row in results.rows] == [
        (case.clients, case.inputs, case.tokens) for case in cases
    ]
    for row in results.rows:
        assert row.requests >= 3
        assert 0 < row.latency.p50_ms <= row.latency.p99_ms <= row.latency.max_ms
        assert row.inputs_per_s == pytest.approx(row.requests * row.inputs / row.wall_s)
        assert row.tokens_per_request == row.inputs * row.tokens + (16 if name == "scoring" else 0)


async def test_all_suites_run_when_none_is_named(stub: StubEmbedder) -> None:
    results = await small_run("--url", stub.url)
    assert {row.suite for row in results.rows} == set(DEFAULT_SUITES)
    assert results.check is not None
    assert results.model == "stub"


async def test_no_text_is_sent_twice_once_the_check_is_over(stub: StubEmbedder) -> None:
    await small_run("latency", "concurrency", "--no-check", "--url", stub.url)
    assert len(set(stub.texts)) == len(stub.texts) > 50


async def test_seed_repeats_the_texts(stub: StubEmbedder) -> None:
    results = await small_run("latency", "--no-check", "--url", stub.url)
    first, stub.requests = stub.texts[:3], []
    await small_run("latency", "--no-check", "--url", stub.url, "--seed", results.seed)
    assert stub.texts[:3] == first


async def test_wrong_vectors_end_the_run_before_it_times_anything(stub: StubEmbedder) -> None:
    stub.distort = lambda rows: -rows
    with pytest.raises(CheckFailed, match="all-MiniLM-L6-v2"):
        await small_run("latency", "--url", stub.url)
    assert len(stub.requests) == 1 + 4  # the reference in one request, four of it alone


async def test_one_of_several_models_has_to_be_named(stub: StubEmbedder) -> None:
    stub.models = ["one", "two"]
    with pytest.raises(RequestFailed, match=r"one, two.*--model"):
        await small_run("latency", "--url", stub.url)
    results = await small_run("latency", "--url", stub.url, "--model", "two")
    assert results.model == stub.requests[0]["model"] == "two"


async def test_json_file_is_the_results(stub: StubEmbedder, tmp_path: Path) -> None:
    results = await small_run("--url", stub.url)
    write(results, tmp_path / "new" / "out.json")
    read = RESULTS.validate_json((tmp_path / "new" / "out.json").read_bytes())
    assert read == results


def test_committed_results_are_of_checked_vectors() -> None:
    paths = sorted((ROOT / "bench" / "results").glob("*.json"))
    assert paths
    for path in paths:
        results = RESULTS.validate_json(path.read_bytes())
        assert results.check is not None
        assert path.with_suffix(".md").read_text() == markdown(results)


async def test_command_writes_the_json_file_and_the_tables(
    stub: StubEmbedder, tmp_path: Path
) -> None:
    out = tmp_path / "latency.json"
    code, output, _ = await command(
        *("latency", "--sizes", "16", "--seconds", "0.01", "--url", stub.url, "--json", str(out))
    )
    assert code == 0
    assert "checked before timing: cosine at least 1.00000" in output
    assert orjson.loads(out.read_bytes())["rows"][0]["tokens"] == 16
    assert "| 1 | 1 | 16 |" in out.with_suffix(".md").read_text()


async def test_command_refuses_wrong_vectors_in_one_line(
    stub: StubEmbedder, tmp_path: Path
) -> None:
    stub.distort = lambda rows: -rows
    out = tmp_path / "latency.json"
    code, output, errors = await command("latency", "--url", stub.url, "--json", str(out))
    assert (code, output) == (1, "")
    assert "bench: the server: cosine -1.00000" in errors
    assert "Traceback" not in errors
    assert not out.exists()


async def command(*arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()
