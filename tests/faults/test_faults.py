"""The quick faults, once each. `make faults` runs all of them, several times."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from faults import network, processes, stores
from faults.fleet import Fleet, running_fleet
from faults.trial import Fault, run_trial
from load_driver import References

pytestmark = pytest.mark.timeout(150)  # a fault's recovery alone has a limit of 90 s

QUICK = [fault for fault in (*processes.FAULTS, *stores.FAULTS, *network.FAULTS) if fault.quick]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet() -> AsyncIterator[Fleet]:
    async with running_fleet() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def references() -> References:
    return References()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.name)
async def test_fault_costs_time_and_no_answer(
    fleet: Fleet, fault: Fault, references: References
) -> None:
    trial = await run_trial(fleet, fault, references)
    assert trial.holds, trial.explain()
