"""Whole runs against the stub, and what they leave behind."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from pydantic import TypeAdapter
from stub_embedder import StubEmbedder

from bench.client import RequestFailed
from bench.gate import CheckFailed, Reference
from bench.inputs import read_encoder
from bench.measure import Effort
from bench.options import DEFAULT_SUITES, parse
from bench.plots import plots
from bench.progress import Bar
from bench.report import markdown
from bench.results import Results, write
from bench.run import run
from bench.suites import SUITES
from bench.suites.load import CLIENTS
from checkpoint.find import DEFAULT_MODEL, find_model

ROOT = Path(__file__).parents[2]
RESULTS = TypeAdapter(Results)


async def small_run(*arguments: str) -> Results:
    """Enough requests to pass through every step."""
    sizes = [] if "load" in arguments else ["--sizes", "16,24"]
    options = parse([*arguments, *sizes])
    load = replace(options.load, warmup_s=0.0, seconds=0.3)
    return await run(replace(options, effort=Effort(0.0, 0.0, 3), load=load), Bar())


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


async def test_model_may_be_named_by_an_alias(stub: StubEmbedder) -> None:
    stub.max_tokens = 100
    options = parse(["latency", "--no-check", "--url", stub.url, "--model", "alias"])
    results = await run(replace(options, effort=Effort(0.0, 0.0, 3)), Bar())
    assert [row.tokens for row in results.rows] == [16, 100]
    assert results.model == stub.requests[0]["model"] == "alias"


async def test_load_finds_the_peak_and_measures_shares_of_it(stub: StubEmbedder) -> None:
    results = await small_run("load", "--rates", "10%,20%,40", "--url", stub.url)
    per_s = max(row.inputs_per_s for row in results.rows)
    assert [row.clients for row in results.rows] == [*CLIENTS[: len(results.rows)]]
    assert [row.rate for row in results.loads] == pytest.approx([per_s / 10, per_s / 5, 40])
    assert [row.share for row in results.loads] == pytest.approx([0.1, 0.2, 40 / per_s])
    for row in results.loads:
        assert row.arrivals == row.answered > 0
        assert row.latency.max_ms is not None
        assert row.tokens == "mixed"
        assert row.tokens_per_s == pytest.approx(81 * row.inputs_per_s, rel=0.5)


async def test_peak_of_a_server_that_refuses_is_what_it_took_before(stub: StubEmbedder) -> None:
    stub.most_at_once = CLIENTS[0]
    results = await small_run("load", "--rates", "10%", "--url", stub.url)
    (row,) = results.rows
    assert row.clients == CLIENTS[0]
    (loaded,) = results.loads
    assert loaded.rate == pytest.approx(row.inputs_per_s / 10)


async def test_load_of_which_nothing_is_answered_has_no_figures(stub: StubEmbedder) -> None:
    arguments = ["load", "--rates", "100", "--no-check", "--url", stub.url]
    plan = replace(parse(arguments).load, warmup_s=0.0, seconds=0.3)
    stub.distort = lambda rows: rows[:0]
    with pytest.raises(RequestFailed, match="every request failed: 0 vectors for 1 inputs"):
        await run(replace(parse(arguments), load=plan), Bar())


async def test_share_of_a_fast_servers_peak_may_be_too_much(
    stub: StubEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.measure_load.MOST_ARRIVALS", 3)
    results = await small_run("load", "--rates", "10%,1000%", "--url", stub.url)
    assert results.rows
    assert "are too many" in results.ended


async def test_load_at_given_rates_needs_no_peak(stub: StubEmbedder) -> None:
    results = await small_run("load", "--rates", "50", "--inputs", "3", "--url", stub.url)
    assert not results.rows
    assert results.loads[0].share is None
    assert results.loads[0].inputs_per_s == pytest.approx(3 * results.loads[0].requests_per_s)


async def test_load_on_a_server_that_refuses_is_counted(stub: StubEmbedder) -> None:
    stub.fails_on_inputs = 1
    arguments = ("load", "--no-check", "--rates", "50", "--url", stub.url)
    results = await small_run(*arguments)
    (row,) = results.loads
    assert row.refused == row.arrivals > 0
    assert row.answered == row.requests_per_s == 0
    assert row.latency.p50_ms is None
    assert sum(row.reasons.values()) == row.refused
    (reason,) = row.reasons
    assert "503" in reason
    assert f"{row.refused:,} times: {reason}" in markdown(results, {})


async def test_seed_repeats_the_arrivals(stub: StubEmbedder) -> None:
    arguments = ("load", "--rates", "80", "--no-check", "--url", stub.url, "--seed", "a")
    first, again = await small_run(*arguments), await small_run(*arguments)
    assert first.loads[0].arrivals == again.loads[0].arrivals


async def test_token_arrays_are_checked_and_sent_in_place_of_texts(reference: Reference) -> None:
    encode = read_encoder(find_model(DEFAULT_MODEL).directory / "tokenizer.json")
    ids = [tuple(one) for one in encode(reference.texts)]
    async with StubEmbedder(dict(zip(ids, reference.vectors, strict=True))) as stub:
        stub.models = [DEFAULT_MODEL]
        results = await small_run("latency", "--input", "tokens", "--url", stub.url)
    assert results.check is not None
    assert "token arrays" in results.inputs
    assert {type(one) for one in stub.texts} == {list}
    assert {body["token_input"] for body in stub.requests} == {"native"}
    assert {len(one) for one in stub.texts[-3:]} == {24}


async def test_token_arrays_that_mean_other_tokens_to_the_server_are_not_timed(
    stub: StubEmbedder,
) -> None:
    stub.models = [DEFAULT_MODEL]
    with pytest.raises(CheckFailed, match="cosine"):
        await small_run("latency", "--input", "tokens", "--url", stub.url)


async def test_texts_of_ones_own_are_sent_and_nothing_else(
    stub: StubEmbedder, tmp_path: Path
) -> None:
    corpus = tmp_path / "mine.txt"
    corpus.write_text("first text\nthe second\na third one of several words\n")
    options = parse(["throughput", "--no-check", "--corpus", str(corpus), "--url", stub.url])
    results = await run(replace(options, effort=Effort(0.0, 0.0, 3)), Bar())
    assert {row.tokens for row in results.rows} == {"corpus"}
    assert set(stub.texts) == set(corpus.read_text().splitlines())
    assert "3 lines of mine.txt" in results.inputs


async def test_default_sizes_end_at_the_limit_that_the_server_tells(stub: StubEmbedder) -> None:
    stub.max_tokens = 100
    options = parse(["latency", "--no-check", "--url", stub.url])
    results = await run(replace(options, effort=Effort(0.0, 0.0, 3)), Bar())
    assert [row.tokens for row in results.rows] == [16, 100]


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
        files = {name: f"{path.stem}-{name}.svg" for name in plots(results)}
        assert path.with_suffix(".md").read_text() == markdown(results, files)
        assert all(path.with_name(file).exists() for file in files.values())


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


async def test_command_writes_a_plot_beside_and_shows_it(
    stub: StubEmbedder, tmp_path: Path
) -> None:
    out = tmp_path / "run.json"
    code, output, _ = await command(
        *("load", "--rates", "40,80", "--seconds", "0.1", "--url", stub.url, "--json", str(out))
    )
    assert code == 0
    assert "arrive/s" in output
    assert (tmp_path / "run-load.svg").read_text().startswith("<svg")
    assert "(run-load.svg)" in out.with_suffix(".md").read_text()


async def test_florilege_bench_is_the_same_command(stub: StubEmbedder, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    arguments = ("latency", "--sizes", "16", "--seconds", "0.01", "--url", stub.url)
    entry = ("-c", "from cli.main import app; app()", "bench")
    code, output, _ = await python(*entry, *arguments, "--json", str(out))
    assert code == 0
    assert "Latency: one text a request" in output
    assert out.exists()
    code, _, errors = await python(*entry, "load", "--rates", "none")
    assert code == 2
    assert "neither requests/s nor a share" in errors


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


async def test_late_failure_leaves_what_was_measured(stub: StubEmbedder, tmp_path: Path) -> None:
    stub.fails_on_inputs = 100  # those of throughput
    out = tmp_path / "run.json"
    suites = ("latency", "throughput", "--sizes", "16", "--seconds", "0.01")
    code, output, errors = await command(*suites, "--url", stub.url, "--json", str(out))
    assert code == 1
    assert "Latency: one text a request" in output
    assert "NOT ALL WAS MEASURED: POST /v1/embeddings: 503" in output
    assert "bench: POST /v1/embeddings: 503" in errors
    out = out.with_name("run-partial.json")
    results = RESULTS.validate_json(out.read_bytes())
    assert [row.suite for row in results.rows] == ["latency"]
    assert "out of vectors" in results.ended
    assert "NOT ALL WAS MEASURED" in out.with_suffix(".md").read_text()


async def test_interrupted_run_leaves_what_was_measured(stub: StubEmbedder, tmp_path: Path) -> None:
    stub.hangs_on_words = 24 - stub.special_tokens
    out = tmp_path / "run.json"
    suites = ("latency", "--sizes", "16,24", "--seconds", "0.01", "--no-check")
    # SIGINT is ignored by what a shell starts in the background, and by its children.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from bench.__main__ import main; main()"
    )
    process = await started("-c", program, *suites, "--url", stub.url, "--json", str(out))
    await asyncio.wait_for(stub.hung.wait(), 60)
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert process.returncode == 130
    assert b"bench: interrupted" in errors
    assert not out.exists()  # where a whole run may be
    results = RESULTS.validate_json(out.with_name("run-partial.json").read_bytes())
    assert [row.tokens for row in results.rows] == [16]
    assert results.ended == "interrupted"


async def test_run_that_measured_nothing_leaves_no_file(stub: StubEmbedder, tmp_path: Path) -> None:
    stub.fails_on_inputs = 1
    out = tmp_path / "run.json"
    suites = ("latency", "--sizes", "16", "--no-check", "--url", stub.url)
    code, output, errors = await command(*suites, "--json", str(out))
    assert (code, output) == (1, "")
    assert "out of vectors" in errors
    assert not out.exists()


async def command(*arguments: str) -> tuple[int | None, str, str]:
    return await python("-m", "bench", *arguments)


async def python(*arguments: str) -> tuple[int | None, str, str]:
    process = await started(*arguments)
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def started(*arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments), cwd=ROOT, stdout=PIPE, stderr=PIPE
    )
