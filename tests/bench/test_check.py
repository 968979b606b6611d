"""The regression gate: what holds, what fails, and what is told of it."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

import bench.check.command as command
import bench.check.kernels as kernels
import bench.check.services as services
import bench.cpu.measure
from bench.check.ratios import Committed, CommittedRatio, Measured, Ratio, compare, settle
from bench.check.report import committed_page
from bench.check.services import LARGE, REDIS, SHORT
from bench.cpu.loads import Load
from bench.fleet.processes import SERVER, WORKER
from bench.machine import Machine
from bench.suites.suite import Case

COMMITTED = command.COMMITTED
MACHINE = Machine("a processor", 2, 2**34, "Linux", 0.1, {}, "abc")
KNOWN = [CommittedRatio("a", 2.0, 0.05, [2.0]), CommittedRatio("b", 0.5, 0.1, [0.5])]


def measured(a: float = 2.0, b: float = 0.5, **others: float) -> Measured:
    values = {"a": a, "b": b, **others}
    return Measured([Ratio(n, [value * k for k in (0.9, 1, 1.2)]) for n, value in values.items()])


def states(found: Measured) -> dict[str, str]:
    return {verdict.name: verdict.state for verdict in compare(KNOWN, found)}


def failing(found: Measured) -> set[str]:
    return {verdict.name for verdict in compare(KNOWN, found) if verdict.fails}


def test_ratios_within_their_noise_hold() -> None:
    assert states(measured(a=1.91, b=0.46)) == {"a": "holds", "b": "holds"}
    assert not failing(measured(a=3.0, b=0.9))


def test_ratio_that_falls_by_more_than_its_noise_fails() -> None:
    assert states(measured(a=1.89)) == {"a": "fell", "b": "holds"}
    assert failing(measured(a=1.89)) == {"a"}
    assert failing(measured(b=0.449)) == {"b"}


def test_ratio_that_is_no_number_fails() -> None:
    assert failing(measured(a=float("nan"))) == {"a"}


def test_ratio_that_was_not_measured_fails() -> None:
    found = measured()
    del found.ratios[0]
    assert states(found) == {"a": "missing", "b": "holds"}
    assert failing(found) == {"a"}


def test_ratio_that_was_never_committed_fails() -> None:
    assert states(measured(c=1.0))["c"] == "not committed"
    assert failing(measured(c=1.0)) == {"c"}


def test_ratio_that_cannot_be_measured_here_is_skipped_by_name() -> None:
    found = measured()
    del found.ratios[0]
    found.skipped["a"] = "this processor has no AVX-512"
    assert states(found) == {"a": "skipped", "b": "holds"}
    assert not failing(found)


def test_noise_covers_every_run_that_it_was_made_of() -> None:
    (one, _) = settle([measured(a=a) for a in (2.0, 2.1, 1.9, 2.05, 1.98)])
    assert one.ratio == 2.0
    assert one.noise == pytest.approx(1.5 * 0.2 / 2.0)
    assert one.floor < min(one.runs)


def test_noise_is_never_less_than_three_percent() -> None:
    assert {ratio.noise for ratio in settle([measured(), measured()])} == {0.03}


@pytest.fixture
def committed_path(tmp_path: Path) -> Path:
    path = tmp_path / "check.json"
    command.keep(Committed("2026-11-30", MACHINE, KNOWN, 0.0), "", path)
    return path


def gate(monkeypatch: pytest.MonkeyPatch, found: Measured, *arguments: str) -> int | str | None:
    monkeypatch.setattr(command, "_measure", lambda: found)
    try:
        command.main(arguments)
    except SystemExit as ended:
        return ended.code
    return 0


def test_exit_code_tells_what_became_of_the_ratios(
    monkeypatch: pytest.MonkeyPatch, committed_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--committed", str(committed_path))
    assert gate(monkeypatch, measured(), *at) == 0
    assert gate(monkeypatch, measured(a=1.0), *at) == 2
    assert "| a | 2.000 | 1.900 | 1.000 | 0.900 … 1.200 | fell |" in capsys.readouterr().out
    partly = measured()
    del partly.ratios[0]
    partly.skipped["a"] = "no AVX-512"
    assert gate(monkeypatch, partly, *at) == 3
    assert "skipped: no AVX-512" in capsys.readouterr().out


def test_nothing_to_compare_with_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(monkeypatch, measured(), "--committed", str(tmp_path / "none.json")) == 1
    assert "--update writes it" in capsys.readouterr().err


def test_update_writes_what_then_holds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "check.json"
    assert gate(monkeypatch, measured(), "--update", "--committed", str(path)) == 0
    assert path.with_suffix(".md").read_text() == capsys.readouterr().out
    assert gate(monkeypatch, measured(), "--committed", str(path)) == 0


def test_update_beside_other_work_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy, path = measured(), tmp_path / "check.json"
    noisy.others_cores = 0.9
    assert gate(monkeypatch, noisy, "--update", "--committed", str(path)) == 1
    assert "0.90 cores: nothing is written" in capsys.readouterr().err
    assert not path.exists()


def test_kernels_that_do_not_run_here_are_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "cpu_fault", lambda _: "this processor has no AVX-512")
    found = Measured()
    kernels.measure_kernel_ratios(1, found, lambda _: None)
    assert not found.ratios
    assert set(found.skipped.values()) == {"this processor has no AVX-512"}
    assert len(found.skipped) == 6
    assert "kernels, mixed, bfloat16" in found.skipped


def test_kernels_are_compared_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [Load("mixed", "two", [5, 2]), Load("q16", "one", [16]), Load("long", "one", [64])]
    monkeypatch.setattr(bench.cpu.measure, "loads", lambda _: small)
    monkeypatch.setattr(kernels, "cpu_fault", lambda _: None)
    monkeypatch.setattr(kernels, "_OURS", "plain")  # runs on every processor
    found = Measured()
    kernels.measure_kernel_ratios(2, found, lambda _: None)
    names = {kernels.name_of(load, of) for load in kernels.LOADS for of in ("bfloat16", "float32")}
    assert {ratio.name for ratio in found.ratios} == names
    assert all(len(ratio.rounds) == 2 and min(ratio.rounds) > 0 for ratio in found.ratios)


async def test_services_are_measured_beside_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """On devices that take 2 ms a step: the engine of this process is the real one."""
    slow = ("--tokens-per-s", "1e9", "--step-s", "0.002")
    monkeypatch.setattr(services, "_SERVE", (*SERVER, *slow))
    monkeypatch.setattr(services, "_WORKER", (*WORKER, *slow))
    monkeypatch.setattr(services, "_SHORT_TURN", 3)
    monkeypatch.setattr(services, "_LARGE_CASE", Case(clients=1, inputs=30, tokens=80))
    monkeypatch.setattr(services, "_MANY_TURN", 16)
    found = Measured()
    await services.measure_service_ratios(2, found, lambda _: None)
    assert [ratio.name for ratio in found.ratios] == [SHORT, LARGE, REDIS]
    assert all(len(ratio.rounds) == 2 and min(ratio.rounds) > 0 for ratio in found.ratios)
    assert found.others_cores >= 0


def test_committed_page_is_that_of_its_ratios() -> None:
    assert COMMITTED.exists(), "python -m bench check --update writes it, on a quiet machine"
    committed = TypeAdapter(Committed).validate_json(COMMITTED.read_bytes())
    assert COMMITTED.with_suffix(".md").read_text() == committed_page(committed)
    assert {SHORT, LARGE, REDIS} <= {ratio.name for ratio in committed.ratios}
