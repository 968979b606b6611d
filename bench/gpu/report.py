"""The tables of a run as Markdown, from what its JSON file holds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NUMBERS = (int, float)


def markdown(results: Mapping[str, Any]) -> str:
    """All parts that there are, whatever became of the run."""
    head = (
        f"# GPU, {results['date'][:10]}\n\n"
        "Random weights of real shapes, by `python -m bench gpu`. What a figure means is in "
        "[docs/benchmarks.md](../../docs/benchmarks.md).\n"
    )
    return "\n".join([head, *(part_markdown(part) for part in results["parts"])])


def part_markdown(part: Mapping[str, Any]) -> str:
    return "\n\n".join(_blocks(part)) + "\n"


def _blocks(part: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {part['title']}"
    if part["state"] != "done":
        yield f"**{part['state']}** after {part.get('seconds', 0)} s: rows are missing."
    for error in part.get("errors", ()):
        yield f"```\n{error.strip()}\n```"
    for title, rows in part["tables"].items():
        yield f"### {title}"
        yield _table(rows)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    ruler = ["---:" if _is_number(rows, name) else "---" for name in columns]
    header = [name.replace("_", " ") for name in columns]
    cells = [[_cell(name, row.get(name)) for name in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ruler, *cells))


def _is_number(rows: Sequence[Mapping[str, Any]], column: str) -> bool:
    values = [row.get(column) for row in rows]
    return any(isinstance(value, _NUMBERS) and not isinstance(value, bool) for value in values)


def _cell(column: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:.5f}" if "cosine" in column else _figure(value)
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("|", "\\|")


def _figure(value: float) -> str:
    """Three digits at least."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"
