"""take_batch against its rule, for any queue."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from worker.batcher import BatchLimits, Waiting, take_batch


@dataclass(frozen=True)
class FakeJob:
    tokens: int
    sequences: int = 1
    kind: str = "embed"
    variant: str = ""


jobs = st.lists(
    st.builds(
        Waiting,
        st.builds(
            FakeJob,
            tokens=st.integers(1, 3000),
            sequences=st.integers(1, 60),
            kind=st.sampled_from(["embed", "score"]),
            variant=st.sampled_from(["", "a"]),
        ),
        alone=st.sampled_from([False, False, False, True]),
    ),
    max_size=40,
)
LIMITS = BatchLimits(max_batch_tokens=2048, max_batch_sequences=64)


def fits(batch: list[Waiting]) -> bool:
    jobs = [waiting.job for waiting in batch]
    return (
        sum(j.tokens for j in jobs) <= LIMITS.max_batch_tokens
        and sum(j.sequences for j in jobs) <= LIMITS.max_batch_sequences
        and len({(j.kind, j.variant) for j in jobs}) == 1
        and not any(waiting.alone for waiting in batch)
    )


@given(jobs)
def test_batch_is_the_longest_prefix_that_fits(waiting: list[Waiting]) -> None:
    count = take_batch(waiting, LIMITS)
    assert count <= len(waiting)
    if count > 1:
        assert fits(waiting[:count])
    if 0 < count < len(waiting):
        assert not fits(waiting[: count + 1])


@given(jobs)
def test_queue_is_always_emptied_in_order(waiting: list[Waiting]) -> None:
    left, taken = list(waiting), []
    for _ in waiting:
        count = take_batch(left, LIMITS)
        assert count >= 1 or not left
        taken += left[:count]
        left = left[count:]
    assert taken == waiting


def test_job_larger_than_any_budget_runs_alone() -> None:
    assert take_batch([Waiting(FakeJob(10_000)), Waiting(FakeJob(1))], LIMITS) == 1


def test_nothing_waiting_makes_no_batch() -> None:
    assert take_batch([], LIMITS) == 0
