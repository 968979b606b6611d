from hypothesis import given
from hypothesis import strategies as st

from worker.budget import LEAST_TOKENS, BatchBudget


def test_budget_is_halved_down_to_a_text() -> None:
    budget, sizes = BatchBudget(4096), []
    while budget.ran_out():
        sizes.append(budget.tokens)
    assert sizes == [2048, 1024, 512]
    assert not budget.ran_out()


def test_small_budget_stays_as_it_is() -> None:
    budget = BatchBudget(100)
    assert not budget.ran_out()
    assert budget.tokens == 100


def test_budget_grows_back_after_many_full_batches() -> None:
    budget = BatchBudget(4096)
    budget.ran_out()
    budget.ran_out()
    assert [budget.ran(900) for _ in range(256)] == [False] * 255 + [True]
    assert budget.tokens == 2048
    for _ in range(10_000):
        assert not budget.ran(500)  # not half full: nothing is known
    for _ in range(256):
        budget.ran(2048)
    assert budget.tokens == 4096
    assert not any(budget.ran(4096) for _ in range(1000))


def test_growth_starts_over_when_memory_runs_out_again() -> None:
    budget = BatchBudget(4096)
    budget.ran_out()
    for _ in range(255):
        budget.ran(2048)
    budget.ran_out()
    assert not any(budget.ran(1024) for _ in range(255))
    assert budget.ran(1024)


@given(st.integers(1, 100_000), st.lists(st.none() | st.integers(1, 200_000), max_size=600))
def test_budget_stays_between_a_text_and_what_was_configured(
    most: int, events: list[int | None]
) -> None:
    budget = BatchBudget(most)
    for tokens in events:
        if tokens is None:
            budget.ran_out()
        else:
            budget.ran(tokens)
        assert min(most, LEAST_TOKENS) <= budget.tokens <= most
