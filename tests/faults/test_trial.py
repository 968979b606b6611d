"""A run that proves nothing, or that went wrong, does not hold; and the page says so."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from deployment import Deployment
from faults import __main__ as command
from faults.fleet import Fleet, Role, Store
from faults.history import Verdict
from faults.load import Load, Pace
from faults.page import replace_section, table
from faults.trial import Fault, Hit, Trial, without_proof
from load_driver import References
from server_process import ServerProcess


async def hit_nothing(fleet: Fleet, load: Load) -> Hit:
    return Hit(0)


FAULT = Fault("a fault", hit_nothing, ("redelivered", "broken"))


def trial(verdict: Verdict | None = None, recovery_s: float = 1.0, **other: list[str]) -> Trial:
    found = {"left_behind": [], "complaints": []} | other
    return Trial("a fault", verdict or Verdict(100), 3, recovery_s, {"redelivered": 3}, **found)


def test_fault_that_moved_its_counters_with_jobs_in_flight_is_proved() -> None:
    assert without_proof(FAULT, Hit(1), Counter(redelivered=1, broken=2)) == []


def test_fault_without_its_counter_or_without_a_job_is_not_proved() -> None:
    complaints = without_proof(FAULT, Hit(0), Counter(redelivered=1))
    assert complaints == ["broken did not move", "no job was in flight"]


@pytest.mark.parametrize(
    "bad",
    [
        trial(Verdict(100, lost=["request 1: fail 500"])),
        trial(Verdict(100, wrong=[1])),
        trial(Verdict(100, doubled=["request 1: 2 answers"])),
        trial(Verdict(100, uncounted=["a: 1 tokens counted, 2 answered"])),
        trial(left_behind=["florilege:dd:job: no time to live"]),
        trial(complaints=["no job was in flight"]),
    ],
)
def test_run_with_anything_wrong_does_not_hold_and_is_named(bad: Trial) -> None:
    assert trial().holds
    assert not bad.holds
    assert "Failed:" not in table([trial()], Pace())
    assert "Failed:" in table([trial(), bad], Pace())


def test_row_adds_up_the_runs_of_a_fault() -> None:
    text = table([trial(recovery_s=float(i)) for i in (1, 2, 9)], Pace())
    row = "| a fault | 3 | 300 | 3–3 | 0 | 0 | 0 | 0 | 2.00 | 9.00 | redelivered 9 |"
    assert text.splitlines()[-1] == row


def test_section_alone_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- soak -->\nold\n<!-- /soak -->\nafter\n")
    replace_section(page, "soak", "new")
    assert page.read_text() == "before\n<!-- soak -->\nnew\n<!-- /soak -->\nafter\n"
    with pytest.raises(ValueError, match="no section 'faults'"):
        replace_section(page, "faults", "new")


class Unstartable(Fleet):
    """Its one worker ended, and no other starts."""

    def __init__(self) -> None:
        super().__init__(cast(Store, None), cast(Deployment, None))
        ended = SimpleNamespace(process=SimpleNamespace(poll=lambda: 1))
        self.workers.append(cast(ServerProcess, ended))

    def begin(self, role: Role, place: int) -> ServerProcess:
        raise RuntimeError("no port is free")


async def test_process_that_cannot_be_started_anew_is_told_and_tried_again() -> None:
    fleet = Unstartable()
    fleet.supervise()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no port is free"):
            await fleet.until_all_serve()
    await asyncio.sleep(0)
    await fleet.close()


async def test_run_that_raises_does_not_hold_and_the_next_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = iter([RuntimeError("no port is free"), trial()])

    async def run_trial(*_: object) -> Trial:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(command, "run_trial", run_trial)
    failed, good = await command.run_one(Unstartable(), FAULT, References(), 2)
    assert failed.complaints == ["RuntimeError: no port is free"]
    assert (failed.holds, good.holds) == (False, True)


async def test_table_is_kept_when_something_is_left_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextlib.asynccontextmanager
    async def unstartable() -> AsyncIterator[Fleet]:
        yield Unstartable()

    async def run_trial(*_: object) -> Trial:
        return trial()

    async def never(_: Fleet) -> None:
        raise TimeoutError

    monkeypatch.setattr(command, "run_trial", run_trial)
    monkeypatch.setattr(command, "running_fleet", unstartable)
    monkeypatch.setattr(command, "_until_nothing_is_left", never)
    good, failed = await command.run(["FLUSHALL"], 1)
    assert (good.holds, failed.holds) == (True, False)
