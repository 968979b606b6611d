"""The tables of `peers`, as Markdown."""

from collections.abc import Iterator

from bench.fleet.report import machine_lines, page, section
from bench.peers.loads import FRESH, FRESH_AGAIN, Q16
from bench.peers.results import ContenderRow, LoadRow, PeersResults, TargetRow
from bench.peers.roster import HTTP
from bench.peers.targets import ratio
from bench.statistics import Spread, spread

IN_MS = (Q16.name, FRESH, FRESH_AGAIN)  # loads of single texts; the others are told as texts/s
MEASURE = f"{HTTP} bfloat16"  # who the others are compared with


def peers_markdown(results: PeersResults, plot: str) -> str:
    """`plot`: the name of its file, beside this page."""
    missing = (f"without {name}: {reason.splitlines()[0]}" for name, reason in missing_of(results))
    lines = [
        *machine_lines(results.date, results.machine),
        f"{results.rounds} rounds in random order, each contender at its best size, the others "
        f"asleep; medians, and the least and greatest of all rounds; seed {results.seed}",
        f"while none had its turn, {results.idle_cores:.2f} cores were busy; "
        f"{results.turns.repeated} of {results.turns.measured} turns were measured again because "
        f"the machine was slow around them, {results.turns.slow} were so each time",
        *(f"{name}: {about}" for name, about in results.loads.items()),
        *missing,
        *([f"NOT ALL WAS MEASURED: {results.ended}"] if results.ended else []),
    ]
    return page(
        f"{results.model} beside its peers",
        lines,
        targets_section(results),
        f"![Texts a second, by engine]({plot})",
        *_load_sections(results),
        section(
            "Who took part",
            ("engine", "dtype", "cosine, least", "", "versions"),
            [_contender_cells(row) for row in results.contenders],
        ),
    )


def targets_section(results: PeersResults) -> str:
    return section(
        "Targets",
        ("work", "ours", "peer", "target", "measured", "min – max", "reached"),
        [_target_cells(target) for target in results.targets] or [("none of these loads",)],
    )


def missing_of(results: PeersResults) -> list[tuple[str, str]]:
    return sorted(results.missing.items())


def _load_sections(results: PeersResults) -> Iterator[str]:
    for load in results.loads:
        rows = [row for row in results.rows if row.load == load]
        ours = next((row for row in rows if row.key == MEASURE), None)
        unit = "ms" if load in IN_MS else "texts/s"
        yield section(
            load,
            ("engine", "dtype", "at a time", unit, "min – max", f"{HTTP}: × as fast", "min – max"),
            [_load_cells(row, ours) for row in rows],
        )


def _load_cells(row: LoadRow, ours: LoadRow | None) -> tuple[str, ...]:
    against = ("", "") if ours is None or row.key == MEASURE else _spread_cells(ratio(ours, row))
    return (row.name, row.dtype, row.size or "1 text", *_spread_cells(figures(row)), *against)


def figures(row: LoadRow) -> Spread:
    """Of its rounds: ms for single texts, texts/s otherwise."""
    if row.load in IN_MS:
        return spread([1e3 * seconds for seconds in row.rounds_s])
    return spread([1 / seconds for seconds in row.rounds_s])


def _target_cells(target: TargetRow) -> tuple[str, ...]:
    if target.figure is None:
        return (target.work, target.ours, target.peer, target.target, "not measured", "", "")
    reached = "yes" if target.reached else "**no**"
    measured = _spread_cells(target.figure)
    return (target.work, target.ours, target.peer or "–", target.target, *measured, reached)


def _contender_cells(row: ContenderRow) -> tuple[str, ...]:
    cosine = f"{row.min_cosine:.5f}" + ("" if row.same_vectors else " **other vectors**")
    versions = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    return (row.name, row.dtype, cosine, row.note, versions)


def _spread_cells(spread: Spread) -> tuple[str, str]:
    return _figure(spread.median), f"{_figure(spread.min)} – {_figure(spread.max)}"


def _figure(value: float) -> str:
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"
