import pytest
import torch
from poison import Poisoned

from engine.triton_kernels.finish import finish


@pytest.mark.parametrize(("count", "width"), [(1, 1), (64, 1), (3, 384), (5, 1000), (2, 9000)])
def test_rows_are_copied_and_called_finite(count: int, width: int) -> None:
    rows, out = Poisoned(torch.randn(count, width)), Poisoned(torch.zeros(count, width + 1))
    finish(rows.view, out.view)
    assert torch.equal(out.view[:, :-1], rows.view)
    assert out.view[:, -1].tolist() == [1.0] * count
    out.assert_unspilled()


@pytest.mark.parametrize("width", [384, 9000])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_value_that_is_not_finite_marks_its_row(width: int, value: float) -> None:
    rows = torch.randn(4, width)
    rows[1, 0] = rows[2, -1] = value
    out = torch.empty(4, width + 1)
    finish(rows, out)
    assert out[:, -1].tolist() == [1.0, 0.0, 0.0, 1.0]
