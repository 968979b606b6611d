"""What `python -m bench overhead` found, as Markdown."""

from bench.overhead.measure import SIDES, Added, OverheadResults

MOST_SHARE = 0.03  # of the latency of a request of one text


def overhead_markdown(results: OverheadResults) -> str:
    machine = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    limit = "within" if results.share < MOST_SHARE else "ABOVE"
    lines = [
        "# What metrics, logs and traces that are off cost",
        "",
        f"- {results.model}, requests of one text of {results.tokens} tokens, one at a time; "
        f"{results.date}; commit {machine.commit or 'unknown'}; {versions}",
        f"- {machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load {machine.load_1m:.1f} when the run began",
        f"- {results.rounds} rounds, {results.turn} requests of each in turn, in random order, to "
        "one process: same loop, same engine; meanwhile other work kept "
        f"{results.others_cores:.2f} cores busy",
        f"- a client waits {results.share:.2%} longer, for an answer or for the next: {limit} the "
        f"{MOST_SHARE:.0%} that are allowed; the loop's CPU that is added is "
        f"{results.cpu_share:.2%} of the CPU of a request",
        "",
        "## Latency, ms, and CPU, µs",
        "",
        "|  | p50 | p90 | p99 | CPU of the event loop | of the process |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for side in SIDES:
        times = results.latencies[side]
        lines.append(
            f"| {side} | {times.p50_ms:.3f} | {times.p90_ms:.3f} | {times.p99_ms:.3f} "
            f"| {results.loop_cpu_us[side]:,.0f} | {results.cpu_us[side]:,.0f} |"
        )
    lines += [
        "",
        "## Added to each request, µs: median over the rounds, and its interval of 95 %",
        "",
        "|  | median | from | to |",
        "| --- | ---: | ---: | ---: |",
        _row("latency", results.added_latency),
        _row("from one request to the next", results.added_wall),
        _row("CPU of the event loop", results.added_loop_cpu),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, added: Added) -> str:
    return f"| {name} | {added.median_us:+.1f} | {added.low_us:+.1f} | {added.high_us:+.1f} |"
