"""The tables of a run, for the terminal and as Markdown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from bench.gate import MIN_COSINE
from bench.results import Batches, LoadRow, Results, Row
from bench.suites import SUITES, load


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


def markdown(results: Results, plots: Mapping[str, str] | None = None) -> str:
    """`plots`: files beside the page, by what they show."""
    parts = ["\n".join(f"- {line}" for line in _lines(results))]
    parts += [f"![{_SHOWN[name]}]({file})" for name, file in (plots or {}).items()]
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
    if results.ended:
        yield f"NOT ALL WAS MEASURED: {results.ended}"
    if results.inputs:
        yield f"sent: {results.inputs}"
    if results.check is None:
        yield "NOT CHECKED: the figures below may be of wrong vectors (--no-check)"
    else:
        yield (
            f"checked before timing: cosine at least {results.check.min_cosine:.5f} over "
            f"{results.check.texts} texts to {results.check.reference} (refused below {MIN_COSINE})"
        )
    for row in results.loads:
        for reason, count in row.reasons.items():
            yield f"at {_figure(row.rate)} requests/s, {count:,} times: {reason}"


def _tables(results: Results) -> Iterator[Table]:
    titles = {name: suite.title for name, suite in SUITES.items()} | {load.NAME: load.PEAK_TITLE}
    for name, title in titles.items():
        rows = [row for row in results.rows if row.suite == name]
        if rows:
            yield Table(title, _SUITE_HEADERS, [_suite_cells(row) for row in rows])
    if results.loads:
        yield Table(_ARRIVALS, _ARRIVAL_HEADERS, [_arrival_cells(row) for row in results.loads])
        yield Table(_LATENCIES, _LATENCY_HEADERS, [_latency_cells(row) for row in results.loads])
    if results.batches:
        yield Table(_BATCHES, _BATCH_HEADERS, [_batch_cells(of) for of in results.batches])


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


_ARRIVALS = "Load: Poisson arrivals, and what became of them; given up: never finished"
_ARRIVAL_HEADERS = (
    *("tokens", "arrive/s", "of the peak", "arrivals", "answered", "refused", "failed"),
    *("given up", "in flight"),
)


def _arrival_cells(row: LoadRow) -> tuple[str, ...]:
    counts = (row.arrivals, row.answered, row.refused, row.failed)
    return (
        *(f"{row.inputs}×{row.tokens}", _figure(row.rate)),
        "–" if row.share is None else f"{row.share:.0%}",
        *(f"{count:,}" for count in (*counts, row.unfinished, row.most_in_flight)),
    )


_LATENCIES = "Load: latency from the moment a request was due"
_LATENCY_HEADERS = (
    *("tokens", "arrive/s", "answered/s", "tokens/s"),
    *("p50 ms", "p90 ms", "p99 ms", "max ms", "sent late, p99 ms"),
)


def _latency_cells(row: LoadRow) -> tuple[str, ...]:
    of = row.latency
    rates = (row.rate, row.requests_per_s, row.tokens_per_s)
    unknown = "∞" if row.unfinished else "–"  # there was none: nothing came, or all was refused
    return (
        *(f"{row.inputs}×{row.tokens}", *(_figure(rate) for rate in rates)),
        *(
            unknown if ms is None else _figure(ms)
            for ms in (of.p50_ms, of.p90_ms, of.p99_ms, of.max_ms)
        ),
        _figure(row.late_p99_ms),
    )


_BATCHES = "Batches, by the server's metrics; warm-ups and checks are among them"
_BATCH_HEADERS = ("suite", "batches", "tokens", "tokens a batch")


def _batch_cells(batches: Batches) -> tuple[str, ...]:
    mean = batches.tokens / batches.count
    return (batches.suite, f"{batches.count:,}", f"{batches.tokens:,.0f}", _figure(mean))


_SHOWN = {
    "load": "latency, and what became of the arrivals, by their rate",
    "batching": "tokens a second and latency by the tokens of a request",
    "batches": "how large the batches were",
}


def _figure(value: float) -> str:
    """Three digits at least; more than a run can tell apart stay in the JSON file."""
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _dtype(results: Results) -> str:
    return str(results.server.get("dtype", "dtype unknown"))
