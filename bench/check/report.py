"""The gate's table, and that of what is committed."""

from collections.abc import Sequence

from bench.check.ratios import Committed, Measured, Verdict
from bench.fleet.report import machine_lines, page, section

QUIET_CORES = 0.2  # other work beyond it is seen in the ratios


def check_page(committed: Committed, measured: Measured, verdicts: Sequence[Verdict]) -> str:
    lines = [
        f"committed {committed.date[:10]} on {committed.machine.cpu}, "
        f"{committed.machine.cores} cores",
        _others(measured.others_cores),
    ]
    rows = [_cells(verdict) for verdict in verdicts]
    headers = ("ratio", "committed", "not below", "measured", "rounds", "")
    return page("Ratios beside those committed", lines, section("Ratios", headers, rows))


def committed_page(committed: Committed) -> str:
    runs = len(committed.ratios[0].runs)
    lines = [
        *machine_lines(committed.date, committed.machine),
        f"medians of {runs} runs of everything; {_others(committed.others_cores)}",
    ]
    rows = [
        (
            *(r.name, f"{r.ratio:.3f}", f"{r.noise:.1%}", f"{r.floor:.3f}"),
            f"{min(r.runs):.3f} … {max(r.runs):.3f}",
        )
        for r in committed.ratios
    ]
    headers = ("ratio", "median", "noise", "not below", "runs")
    return page("What `make bench-check` holds", lines, section("Ratios", headers, rows))


def _cells(verdict: Verdict) -> tuple[str, ...]:
    known, now = verdict.committed, verdict.measured
    return (
        verdict.name,
        *(("–", "–") if known is None else (f"{known.ratio:.3f}", f"{known.floor:.3f}")),
        *(("–", "–") if now is None else (f"{now.median:.3f}", f"{now.min:.3f} … {now.max:.3f}")),
        f"{verdict.state}: {verdict.reason}" if verdict.reason else verdict.state,
    )


def _others(cores: float) -> str:
    noisy = " NOT QUIET: a ratio that fell may have fallen for that" if cores > QUIET_CORES else ""
    return f"other work took {cores:.2f} cores meanwhile{noisy}"
