"""Runs the parts one after another, each within its share of the time that is left."""

import gc
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.gpu.parts.part import Part, Rows
from bench.gpu.record import Record, State
from bench.gpu.setup import Setup
from engine.device.memory import translated
from engine.errors import DeviceLost

_WORST_FIRST: tuple[State, ...] = ("failed", "cut short")


@dataclass(frozen=True, eq=False)
class Run:
    """A part that fails does not end it; a device that is lost does.

    Time is looked at between rows: a part may take longer by its last one, and what would begin
    when there is none left does not.
    """

    setup: Setup
    record: Record
    clock: Callable[[], float] = perf_counter

    def measure(self, parts: Sequence[Part], seconds: float) -> None:
        deadline_s = self.clock() + seconds
        for place, part in enumerate(parts):
            shares = sum(later.share for later in parts[place:])
            self.record.begin(part)
            started_s = self.clock()
            try:
                state = self._part(part, (deadline_s - started_s) * part.share / shares)
            except DeviceLost as error:
                self.record.fail(f"the device is lost, and with it the run: {error}")
                self.record.end("failed", self.clock() - started_s)
                return
            self.record.end(state, self.clock() - started_s)

    def _part(self, part: Part, seconds: float) -> State:
        deadline_s = self.clock() + seconds
        sections = part.sections(self.setup)
        states: list[State] = []
        for place, rows in enumerate(sections):
            left_s = deadline_s - self.clock()
            states.append(self._section(rows, left_s / (len(sections) - place)))
            gc.collect()  # graphs, and models that no other part shares
            self.setup.device.release_unused()
        return next((state for state in _WORST_FIRST if state in states), "done")

    def _section(self, rows: Rows, seconds: float) -> State:
        if seconds <= 0:
            return "cut short"
        deadline_s = self.clock() + seconds
        try:
            for row in rows:
                self.record.add(row)
                if self.clock() >= deadline_s:
                    return "cut short"
        except Exception as error:
            error = translated(error)
            if isinstance(error, DeviceLost):
                raise error
            self.record.fail(traceback.format_exc(limit=-6))
            return "failed"
        finally:
            rows.close()
        return "done"
