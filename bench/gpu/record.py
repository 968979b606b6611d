"""What a run has found so far, on disk after every row: a run that is killed leaves what it had."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from bench.gpu.parts.part import Part, Row, Value
from bench.gpu.report import markdown, part_markdown

SCHEMA = 1  # a change of meaning raises it

State = Literal["running", "done", "cut short", "failed"]


class Record:
    """Writes `gpu.json`, and says what a part found, in `gpu.md` too, when it ends."""

    def __init__(self, directory: Path, say: Callable[[str], None]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._say = directory, say
        self.results: dict[str, Any] = {
            "schema": SCHEMA,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "parts": [],
        }

    def begin(self, part: Part) -> None:
        state: State = "running"
        self._parts.append({"name": part.name, "title": part.title, "state": state, "tables": {}})
        self._write()

    def add(self, row: Row) -> None:
        values = {name: _storable(value) for name, value in row.values.items()}
        self._parts[-1]["tables"].setdefault(row.table, []).append(values)
        self._write()

    def fail(self, error: str) -> None:
        """Of the part that was begun last. It may go on with another section."""
        self._parts[-1].setdefault("errors", []).append(error)
        self._write()

    def end(self, state: State, seconds: float) -> None:
        part = self._parts[-1]
        part["state"], part["seconds"] = state, round(seconds, 1)
        self._write()
        (self._directory / "gpu.md").write_text(markdown(self.results), encoding="utf-8")
        self._say(part_markdown(part))

    @property
    def faults(self) -> list[str]:
        """Checks that did not pass, and parts that failed."""
        found = []
        for part in self._parts:
            found += [f"{part['title']}: {error.splitlines()[-1]}" for error in _errors(part)]
            found += [
                f"{table}: {json.dumps(row, ensure_ascii=False)}"
                for table, rows in part["tables"].items()
                for row in rows
                if row.get("passes") is False
            ]
        return found

    @property
    def _parts(self) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = self.results["parts"]
        return parts

    def _write(self) -> None:
        text = json.dumps(self.results, indent=1, ensure_ascii=False, allow_nan=False)
        path = self._directory / "gpu.json"
        new = path.with_suffix(".new")
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(path)


def _errors(part: Mapping[str, Any]) -> list[str]:
    errors: list[str] = part.get("errors", [])
    return errors


def _storable(value: Value) -> Value:
    """JSON has no NaN and no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
