"""A run that proves nothing, or that went wrong, does not hold; and the page says so."""

from collections import Counter
from pathlib import Path

import pytest
from faults.fleet import Fleet
from faults.history import Verdict
from faults.load import Load, Pace
from faults.page import replace_section, table
from faults.trial import Fault, Hit, Trial, without_proof


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
