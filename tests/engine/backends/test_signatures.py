"""What was read from other packages' wheels, and what we rely on in them beyond signatures."""

import json

import pytest
from signatures.contract import Contract
from signatures.wheels import FLASHINFER, WHEELS, Wheel

RAGGED = "flashinfer.prefill:BatchPrefillWithRaggedKVCacheWrapper"


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.data.stem)
def test_data_names_the_wheel_it_was_read_from(wheel: Wheel) -> None:
    read = json.loads(wheel.data.read_text(encoding="utf-8"))
    assert (read["package"], read["version"]) == (wheel.package, wheel.version)
    assert len(read["sha256"]) == 64
    assert set(read["functions"]) == set(wheel.functions)


@pytest.mark.parametrize("attribute", ["_int_workspace_buffer", "_pin_memory_int_workspace_buffer"])
def test_flashinfer_plans_into_the_memory_that_it_was_given_last(attribute: str) -> None:
    uses = Contract(FLASHINFER).uses(f"{RAGGED}.{attribute}")
    assert "plan" in uses["read"]
    assert set(uses["set"]) == {"__init__", "reset_workspace_buffer"}


def test_flashinfer_computes_from_the_memory_that_it_planned_into() -> None:
    assert "run" in Contract(FLASHINFER).uses(f"{RAGGED}._int_workspace_buffer")["read"]


def test_flashinfer_exports_what_is_looked_up() -> None:
    assert Contract(FLASHINFER).exports == {
        "flashinfer:BatchPrefillWithRaggedKVCacheWrapper": RAGGED.removeprefix("flashinfer"),
        "flashinfer:__version__": ".version:__version__",
    }


def test_call_that_the_wheel_would_refuse_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        Contract(FLASHINFER).bind(f"{RAGGED}.plan", None, [0], [0], 1, 1, 64, scale=1.0)
