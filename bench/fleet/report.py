"""The tables of `hop` and `scale`, as Markdown."""

from collections.abc import Iterable, Sequence

from bench.fleet.cpu import OTHERS
from bench.fleet.results import HopResults, HopRow, ScaleHop, ScaleResults, ScaleRow
from bench.fleet.ways import BARE, GATEWAY_AND_WORKER, MEMORY, ONE_PROCESS, REDIS
from bench.machine import Machine
from bench.statistics import Latency

_PROCESSES = ("gateway", "redis", "workers", "load", OTHERS)


def hop_markdown(results: HopResults) -> str:
    rows = {row.name: row for row in results.rows}
    added = [
        (f"a job of {results.tokens} tokens", rows[MEMORY], rows[REDIS]),
        (f"a request of {results.tokens} tokens", rows[ONE_PROCESS], rows[GATEWAY_AND_WORKER]),
    ]
    return page(
        "What the Redis hop adds",
        [
            *machine_lines(results.date, results.machine),
            f"{results.rounds} rounds, all ways in each in random order, one at a time, "
            f"{results.pause_s * 1000:g} ms after the last; "
            f"meanwhile other work kept {results.others_cores:.2f} cores busy",
        ],
        section(
            "Added by Redis, ms",
            ("", "p50", "p90", "p99"),
            [(name, *_added(without.latency, with_.latency)) for name, without, with_ in added],
        ),
        section(
            "Each way, ms",
            ("", "timed", "p50", "p90", "p99", "max"),
            [(row.name, str(row.count), *_times(row.latency)) for row in results.rows],
        ),
        _stages(
            "Where a job is meanwhile, medians, ms", [rows[name] for name in (MEMORY, BARE, REDIS)]
        ),
        _stages(
            "Where a request is, medians, ms, as its server tells",
            [rows[name] for name in (ONE_PROCESS, GATEWAY_AND_WORKER)],
        ),
        section(
            "CPU of each, µs",
            ("", "gateway", "redis", "worker"),
            [(row.name, *_cpu_cells(row)) for row in results.rows],
        ),
        section(
            "Inside Redis, for the Redis transport",
            ("command", "a job", "µs each"),
            [(c.name, f"{c.a_job:.2f}", f"{c.each_us:.1f}") for c in results.commands],
        ),
    )


def scale_markdown(results: ScaleResults, plot: str) -> str:
    """`plot`: the name of its file, beside this page."""
    sections = [
        section(
            f"{inputs} × {tokens} tokens a request",
            (
                *("workers", "clients", "requests", "requests/s", "tokens/s", "of the devices"),
                *("p50 ms", "p99 ms"),
                *(f"{process}, cores" for process in (*_PROCESSES, "idle")),
                "gateway CPU, ms a request",
            ),
            [
                _scale_cells(row, results.machine.cores)
                for row in results.rows
                if (row.inputs, row.tokens) == (inputs, tokens)
            ],
        )
        for inputs, tokens in shapes(results)
    ]
    some = "One gateway process"
    if results.gateways > 1:
        some = f"{results.gateways} gateway processes on one port"
    return page(
        f"{some}, more and more workers",
        [
            *machine_lines(results.date, results.machine),
            f"each worker a simulated device of {results.device_tokens_per_s:,.0f} tokens/s; "
            f"{results.seconds:.0f} s a row, warmed up before; all on this machine",
        ],
        f"![requests a second, and who is busy, by workers]({plot})",
        *sections,
        section(
            "One client, a request of 2 × 256 tokens: one process over memory, and over Redis, ms",
            (
                *("workers", "requests", "memory p50", "p99"),
                *("Redis p50", "p99", "added p50", "added p99"),
            ),
            [_hop_cells(hop) for hop in results.hops],
        ),
    )


def shapes(results: ScaleResults) -> list[tuple[int, int]]:
    """Kinds of requests, in the order measured: texts, tokens of each."""
    return list(dict.fromkeys((row.inputs, row.tokens) for row in results.rows))


def page(title: str, lines: Iterable[str], *sections: str) -> str:
    head = "\n".join(f"- {line}" for line in lines)
    return "\n\n".join([f"# {title}", head, *sections]) + "\n"


def machine_lines(date: str, machine: Machine) -> tuple[str, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        f"{date}; commit {machine.commit or 'unknown'}; {versions}",
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load {machine.load_1m:.1f} when the run began",
    )


def section(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    ruler = ("---", *("---:" for _ in headers[1:]))
    return f"## {title}\n\n" + "\n".join(
        f"| {' | '.join(cells)} |" for cells in (headers, ruler, *rows)
    )


def _added(without: Latency, with_: Latency) -> tuple[str, ...]:
    """Differences of percentiles, not percentiles of differences: no job goes both ways."""
    pairs = (
        (without.p50_ms, with_.p50_ms),
        (without.p90_ms, with_.p90_ms),
        (without.p99_ms, with_.p99_ms),
    )
    return tuple(f"{after - before:+.3f}" for before, after in pairs)


def _times(latency: Latency) -> tuple[str, ...]:
    times = (latency.p50_ms, latency.p90_ms, latency.p99_ms, latency.max_ms)
    return tuple(f"{time_ms:.3f}" for time_ms in times)


def _stages(title: str, rows: Sequence[HopRow]) -> str:
    names = [*dict.fromkeys(name for row in rows for name in row.stages_ms)]
    cells = [(row.name, *(f"{row.stages_ms.get(name, 0.0):.3f}" for name in names)) for row in rows]
    return section(title, ("", *names), cells)


def _cpu_cells(row: HopRow) -> tuple[str, ...]:
    names = ("gateway", "redis", "worker")
    return tuple(f"{row.cpu_us[name]:,.0f}" if name in row.cpu_us else "–" for name in names)


def _scale_cells(row: ScaleRow, cores: int) -> tuple[str, ...]:
    idle = max(0.0, cores - sum(row.cores.values()))
    return (
        *(str(row.workers), str(row.clients), str(row.requests)),
        *(f"{row.requests_per_s:,.1f}", f"{row.tokens_per_s:,.0f}", f"{row.device_share:.0%}"),
        *(f"{row.latency.p50_ms:,.1f}", f"{row.latency.p99_ms:,.1f}"),
        *(f"{row.cores[process]:.2f}" for process in _PROCESSES),
        *(f"{idle:.2f}", f"{row.gateway_ms:.2f}"),
    )


def _hop_cells(hop: ScaleHop) -> tuple[str, ...]:
    memory, redis = hop.one_process, hop.gateway
    p50, _, p99 = _added(memory, redis)
    times = (memory.p50_ms, memory.p99_ms, redis.p50_ms, redis.p99_ms)
    return (str(hop.workers), str(hop.requests), *(f"{t:.2f}" for t in times), p50, p99)
