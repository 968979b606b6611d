"""Runs the parts one after another, each within its share of the time that is left."""

import gc
import traceback
from collections.abc import Callable, Sequence
from time import perf_counter

from bench.gpu.parts.part import Part, Rows
from bench.gpu.record import Record, State
from bench.gpu.report import part_markdown
from bench.gpu.setup import Setup
from engine.device.memory import translated
from engine.errors import DeviceLost

Say = Callable[[str], None]


def run(setup: Setup, parts: Sequence[Part], seconds: float, record: Record, say: Say) -> None:
    """A part that fails does not end the run; a device that is lost does.

    Time is looked at between rows: a part may take longer by its last one, and what would begin
    when there is none left does not.
    """
    deadline_s = perf_counter() + seconds
    for place, part in enumerate(parts):
        shares = sum(later.share for later in parts[place:])
        left_s = max(0.0, deadline_s - perf_counter())
        record.begin(part)
        started_s = perf_counter()
        try:
            state = _run_part(setup, part, left_s * part.share / shares, record)
        except DeviceLost as error:
            record.fail(f"the device is lost, and with it the run: {error}")
            say(part_markdown(record.end("failed", perf_counter() - started_s)))
            return
        say(part_markdown(record.end(state, perf_counter() - started_s)))


def _run_part(setup: Setup, part: Part, seconds: float, record: Record) -> State:
    deadline_s = perf_counter() + seconds
    sections = part.sections(setup)
    states: list[State] = []
    for place, rows in enumerate(sections):
        left_s = max(0.0, deadline_s - perf_counter())
        states.append(_run_section(rows, left_s / (len(sections) - place), record))
        gc.collect()  # models and graphs of the section
        setup.device.release_unused()
    worst: tuple[State, ...] = ("failed", "cut short")
    return next((state for state in worst if state in states), "done")


def _run_section(rows: Rows, seconds: float, record: Record) -> State:
    if seconds <= 0:
        return "cut short"
    deadline_s = perf_counter() + seconds
    try:
        for row in rows:
            record.add(row)
            if perf_counter() > deadline_s:
                return "cut short"
    except Exception as error:
        error = translated(error)
        if isinstance(error, DeviceLost):
            raise error
        record.fail(traceback.format_exc(limit=-6))
        return "failed"
    finally:
        close = getattr(rows, "close", None)
        if close is not None:
            close()
    return "done"
