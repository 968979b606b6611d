"""What the command line says."""

from pathlib import Path

import pytest

from bench.options import DEFAULT_SUITES, parse
from bench.suites import SUITES
from bench.suites.load import DEFAULT_RATES, Rate
from bench.suites.suite import within


def test_without_a_suite_those_of_a_server_in_a_closed_loop_run() -> None:
    assert parse([]).suites == DEFAULT_SUITES
    assert parse(["--input", "tokens"]).suites == ("latency", "throughput", "concurrency")


def test_rates_are_requests_a_second_or_shares_of_the_peak() -> None:
    rates = parse(["load", "--rates", "50,12.5,80%"]).load.rates
    assert rates == (Rate(50.0), Rate(12.5), Rate(0.8, is_share=True))
    assert [rate.per_s(200.0) for rate in rates] == [50.0, 12.5, 160.0]
    assert parse(["load"]).load.rates == DEFAULT_RATES


def test_seconds_are_of_every_case_and_of_every_rate() -> None:
    given, default = parse(["load", "--seconds", "2"]), parse(["load"])
    assert (given.effort.timed_s, given.load.seconds) == (2.0, 2.0)
    assert (default.effort.timed_s, default.load.seconds) == (5.0, 10.0)


def test_sizes_are_tokens_or_the_mixed_lengths() -> None:
    assert parse(["--sizes", "16,mixed"]).sizes == (16, "mixed")
    assert parse([]).sizes is None


def test_largest_rates_and_sizes_are_taken() -> None:
    options = parse(["load", "--rates", "100000,1000%", "--sizes", "1000000"])
    assert [rate.per_s(1.0) for rate in options.load.rates] == [100_000.0, 10.0]
    assert options.sizes == (1_000_000,)


def test_corpus_stands_for_all_sizes() -> None:
    assert parse(["--corpus", "mine.txt"]).sizes == ("corpus",)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["nonsense"], ["--sizes", "0"], ["--sizes", "many"], ["--sizes", "corpus"]),
        *(["load", "--rates", "0"], ["load", "--rates", "x%"], ["load", "--rates", "-5"]),
        *(
            ["load", "--rates", "100001"],
            ["load", "--rates", "1001%"],
            ["load", "--rates", "1e300"],
        ),
        *(["--sizes", "1000001"], ["--sizes", "9" * 5_000], ["load", "--inputs", "1000001"]),
        ["scoring", "--input", "tokens"],
        *(["--seconds", value] for value in ("0", "nan", "-3", "soon", "3601")),
        *([flag, "0"] for flag in ("--max-tokens", "--inputs", "--max-in-flight", "--drain-s")),
        *(["--reference", "not there"], ["--json", "out.md"]),
    ],
)
def test_command_line_that_cannot_be_ends_with_a_message(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert "error" in capsys.readouterr().err


def test_sizes_of_a_suite_end_at_the_models_limit() -> None:
    assert within(SUITES["latency"].sizes, 256) == (16, 128, 256)
    assert within(SUITES["latency"].sizes, 8192) == (16, 128, 512, 4096)
    assert within(SUITES["throughput"].sizes, 256) == (256,)
    assert within(("mixed", 512), 256) == ("mixed", 256)


def test_suites_are_those_of_the_original() -> None:
    latency, scoring, throughput = (SUITES[name] for name in ("latency", "scoring", "throughput"))
    assert {(c.clients, c.inputs) for c in latency.cases([512])} == {(1, 1)}
    assert [c.inputs for c in scoring.cases([512])] == [5, 25, 50]
    assert {(c.clients, c.inputs) for c in throughput.cases(throughput.sizes)} == {(4, 100)}
    assert [c.tokens for c in throughput.cases(throughput.sizes)] == [512, 1024, 4096]
    assert [c.clients for c in SUITES["concurrency"].cases([16])] == [1, 2, 4, 8, 16]


def test_results_that_could_not_be_kept_are_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "out.json"):
        with pytest.raises(SystemExit):
            parse(["--json", str(path)])
        assert str(path) in capsys.readouterr().err
    kept = tmp_path / "new" / "out.json"
    assert parse(["--json", str(kept)]).json_path == kept
    assert not kept.exists()
