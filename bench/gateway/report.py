"""What `python -m bench gateway` found, as Markdown."""

from bench.gateway.results import STAGES, GatewayCase, GatewayResults
from bench.statistics import Latency


def gateway_markdown(results: GatewayResults) -> str:
    machine = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    names = [f"{case.inputs} × {case.tokens}, {case.device}" for case in results.cases]
    lines = [
        "# Where the time of a request goes",
        "",
        f"- {results.model}, one request at a time; {results.date}; "
        f"commit {machine.commit or 'unknown'}; {versions}",
        f"- {machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 2**30:.0f} GiB, "
        f"{machine.system}; load {machine.load_1m:.1f} when the run began",
        f"- {results.rounds} rounds of each in turn; meanwhile other work kept up to "
        f"{results.others_cores:.2f} cores busy",
        "- gateway: of each request, what it takes at a bare socket less its steps and its "
        "tokenization",
        "",
        "## Latency, ms: p50 / p99",
        "",
        "| texts × tokens, device | requests | steps | at the socket | bench's client | engine "
        "| tokenize | gateway | CPU of the loop, µs | of the process, µs |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(name, case) for name, case in zip(names, results.cases, strict=True)),
        "",
        "## Stages at the socket, µs: median / p99",
        "",
        f"| | {' | '.join(names)} |",
        f"| --- |{' ---: |' * len(names)}",
    ]
    for stage in STAGES:
        cells = (
            f"{c.stages_us[stage]:,.0f} / {c.stages_p99_us[stage]:,.0f}" for c in results.cases
        )
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _row(name: str, case: GatewayCase) -> str:
    timed = (case.socket, case.client, case.engine, case.tokenize, case.overhead)
    return (
        f"| {name} | {case.requests:,} | {case.steps:.1f} "
        f"| {' | '.join(map(_times, timed))} | {case.loop_cpu_us:,.0f} | {case.cpu_us:,.0f} |"
    )


def _times(times: Latency) -> str:
    return f"{times.p50_ms:.3f} / {times.p99_ms:.3f}"
