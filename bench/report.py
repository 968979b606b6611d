"""The tables of a run, for the terminal and as Markdown."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from bench.gate import MIN_COSINE
from bench.results import Results, Row
from bench.suites import SUITES


@dataclass(frozen=True)
class Table:
    title: str
    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]


def print_report(results: Results, console: Console) -> None:
    for line in _lines(results):
        console.print(line, markup=False, highlight=False)
    for table in _tables(results):
        rich_table = RichTable(title=table.title, title_justify="left", box=box.SIMPLE, padding=0)
        for position, header in enumerate(table.headers):
            rich_table.add_column(header, justify="right" if position else "left")
        for row in table.rows:
            rich_table.add_row(*row)
        console.print(rich_table)


def markdown(results: Results) -> str:
    parts = ["\n".join(f"- {line}" for line in _lines(results))]
    for table in _tables(results):
        ruler = ["---", *("---:" for _ in table.headers[1:])]
        cells = [table.headers, ruler, *table.rows]
        lines = [f"| {' | '.join(row)} |" for row in cells]
        parts.append(f"## {table.title}\n\n" + "\n".join(lines))
    return f"# {results.model}, {results.date[:10]}\n\n" + "\n\n".join(parts) + "\n"


def _lines(results: Results) -> Iterator[str]:
    machine = results.machine
    yield f"{results.model} ({_dtype(results)}) at {results.url}, {results.date}"
    yield (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load {machine.load_1m:.1f} when the run began"
    )
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    yield f"commit {machine.commit or 'unknown'}; {versions}; seed {results.seed}"
    if results.check is None:
        yield "NOT CHECKED: the figures below may be of wrong vectors (--no-check)"
    else:
        yield (
            f"checked before timing: cosine at least {results.check.min_cosine:.5f} over "
            f"{results.check.texts} texts to {results.check.reference} (refused below {MIN_COSINE})"
        )


def _tables(results: Results) -> Iterator[Table]:
    for name, suite in SUITES.items():
        rows = [row for row in results.rows if row.suite == name]
        if rows:
            yield Table(suite.title, _SUITE_HEADERS, [_suite_cells(row) for row in rows])


_SUITE_HEADERS = (
    *("clients", "inputs", "tokens", "requests"),
    *("p50 ms", "p90 ms", "p99 ms", "max ms", "inputs/s", "tokens/s"),
)


def _suite_cells(row: Row) -> tuple[str, ...]:
    latency = row.latency
    counts = (row.clients, row.inputs, row.tokens, row.requests)
    times = (latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.max_ms)
    return (
        *(str(count) for count in counts),
        *(_figure(time_ms) for time_ms in times),
        _figure(row.inputs_per_s),
        _figure(row.tokens_per_s),
    )


def _figure(value: float) -> str:
    """Three digits at least; more than a run can tell apart stay in the JSON file."""
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _dtype(results: Results) -> str:
    return str(results.server.get("dtype", "dtype unknown"))
