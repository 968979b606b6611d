"""The table of `cpu`, as Markdown."""

from bench.cpu.results import CpuResults, Figure
from bench.fleet.report import machine_lines, page, section
from bench.statistics import Spread


def cpu_markdown(results: CpuResults) -> str:
    reference = results.figures[-1].kernels
    return page(
        f"Kernels of a CPU, {results.model}",
        [
            *machine_lines(results.date, results.machine),
            f"{results.threads} threads, in process, {results.rounds} rounds in random order; "
            "medians, and the least and greatest of all rounds",
            *(f"{name}: {about}" for name, about in results.loads.items()),
        ],
        section(
            "Token ids to rows",
            ("load", "dtype", "kernels", "ms", "tokens/s", f"× {reference}", "cosine, least"),
            [_cells(figure) for figure in results.figures],
        ),
    )


def _cells(figure: Figure) -> tuple[str, ...]:
    milliseconds = sorted(figure.seconds)[len(figure.seconds) // 2] * 1e3
    return (
        *(figure.load, figure.dtype, figure.kernels, f"{milliseconds:.2f}"),
        *(f"{figure.tokens_per_s.median:,.0f}", _spread(figure.ratio)),
        f"{figure.min_cosine:.6f}",
    )


def _spread(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.min:.2f} … {ratio.max:.2f})"
