"""The tables of `quotas`, as Markdown."""

from collections.abc import Sequence

from bench.fleet.cpu import OTHERS
from bench.fleet.report import machine_lines, page, section
from bench.quotas.results import KeyCount, QuotaResults, Situation

_PROCESSES = ("gateways", "redis", "workers", "load", OTHERS)


def quotas_markdown(results: QuotaResults) -> str:
    flooding = [key for key in results.keys if not key.well_behaved]
    good = [key for key in results.keys if key.well_behaved]
    window_s = flooding[0].window_s
    return page(
        "Keys at many times their limits",
        [
            *machine_lines(results.date, results.machine),
            f"{len(flooding)} keys at {results.times:g} times their limits and {len(good)} at half "
            f"of theirs, by a schedule that waits for no answer; {results.tokens} tokens a "
            f"request; {results.gateways} gateways in turns, {results.workers} simulated worker, "
            "Redis and the load on this machine",
        ],
        section(
            "What the limits granted in the flood",
            (
                *("keys", "limit a minute", "burst", "requests offered", "refused", "failed"),
                *("accepted ÷ (burst + rate × time)", f"in the last {window_s:.0f} s ÷ rate"),
            ),
            [
                _granted(unit, [key for key in flooding if key.unit == unit])
                for unit in dict.fromkeys(key.unit for key in flooding)
            ],
        ),
        section(
            f"The {len(good)} well-behaved keys meanwhile",
            (
                *("beside them", "s", "offered/s, all", "answered/s, all", "their requests"),
                *("refused", "failed", "p50 ms", "p99 ms", "max ms"),
                *("p99 ÷ idle", "p99 ÷ without limits", "the load's own lag, p99 ms"),
                "limits that Redis did not answer for",
            ),
            [_met(situation, results.situations) for situation in results.situations],
        ),
        section(
            "Cores busy",
            ("", *_PROCESSES),
            [
                (s.name, *(f"{s.cores.get(process, 0.0):.2f}" for process in _PROCESSES))
                for s in results.situations
            ],
        ),
        section(
            "One request at a time, by the limits of its key, ms",
            ("limits", "requests", "p50", "p90", "p99", "p50 more than without"),
            [
                (
                    *(cost.limits, str(cost.count), f"{cost.latency.p50_ms:.3f}"),
                    *(f"{cost.latency.p90_ms:.3f}", f"{cost.latency.p99_ms:.3f}"),
                    f"{cost.latency.p50_ms - results.costs[0].latency.p50_ms:+.3f}",
                )
                for cost in results.costs
            ],
        ),
    )


def _granted(unit: str, keys: Sequence[KeyCount]) -> tuple[str, ...]:
    one = keys[0]
    return (
        *(str(len(keys)), f"{one.a_minute:,} {unit}", f"{one.burst:,}"),
        *(f"{sum(getattr(key, what) for key in keys):,}" for what in ("offered", "refused")),
        str(sum(key.failed for key in keys)),
        _range([key.deviation for key in keys]),
        _range([key.late_deviation for key in keys]),
    )


def _range(deviations: Sequence[float]) -> str:
    """The least and the greatest of all keys."""
    return f"{min(deviations):+.2%} … {max(deviations):+.2%}"


def _met(situation: Situation, all_of_them: Sequence[Situation]) -> tuple[str, ...]:
    times, (idle, without_limits, *_) = situation.latency, all_of_them
    return (
        *(situation.name, f"{situation.seconds:.0f}", f"{situation.offered_per_s:,.0f}"),
        *(f"{situation.answered_per_s:,.0f}", str(situation.count)),
        *(str(situation.refused), str(situation.failed)),
        *(f"{times.p50_ms:.2f}", f"{times.p99_ms:.2f}", f"{times.max_ms:.2f}"),
        *(f"{times.p99_ms / other.latency.p99_ms:.2f}" for other in (idle, without_limits)),
        *(f"{situation.lag_p99_ms:.2f}", str(situation.limits_unanswered)),
    )
