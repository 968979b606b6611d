from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from engine.device.buckets import TOKEN_BUCKETS
from engine.device.inflection import Timing, inflection_point

LAUNCH_S = 0.002


def of_device(tokens: int, tokens_per_s: float) -> Timing:
    return Timing(launch_s=LAUNCH_S, device_s=0.0003 + tokens / tokens_per_s)


@given(st.floats(1e4, 1e8))
def test_first_total_whose_device_time_exceeds_its_launch_time(tokens_per_s: float) -> None:
    point = inflection_point(TOKEN_BUCKETS, lambda tokens: of_device(tokens, tokens_per_s))
    slower = [
        tokens for tokens in TOKEN_BUCKETS if of_device(tokens, tokens_per_s).device_s > LAUNCH_S
    ]
    assert point == (slower[0] if slower else TOKEN_BUCKETS[-1])


def test_largest_where_the_device_is_always_faster() -> None:
    assert inflection_point((64, 128), lambda tokens: Timing(1.0, 0.1)) == 128


def test_smallest_where_the_device_is_always_slower() -> None:
    assert inflection_point((64, 128), lambda tokens: Timing(0.1, 1.0)) == 64


def test_few_totals_are_measured() -> None:
    measured: Counter[int] = Counter()

    def measure(tokens: int) -> Timing:
        measured[tokens] += 1
        return of_device(tokens, 1e6)

    inflection_point(TOKEN_BUCKETS, measure)
    assert len(measured) <= 7
    assert set(measured.values()) == {2}


def test_a_measurement_that_was_interrupted_decides_nothing() -> None:
    seen: Counter[int] = Counter()

    def measure(tokens: int) -> Timing:
        seen[tokens] += 1
        timing = of_device(tokens, 1e6)
        return Timing(timing.device_s, timing.launch_s) if seen[tokens] == 1 else timing

    quiet = inflection_point(TOKEN_BUCKETS, lambda tokens: of_device(tokens, 1e6))
    assert inflection_point(TOKEN_BUCKETS, measure) == quiet


@given(st.randoms(use_true_random=False))
def test_noise_moves_the_point_no_further_than_it_reaches(random: Random) -> None:
    def measure(tokens: int) -> Timing:
        timing = of_device(tokens, 1e6)
        return Timing(timing.launch_s, timing.device_s * random.uniform(0.9, 1.1))

    point = inflection_point(TOKEN_BUCKETS, measure)
    assert 0.85 < of_device(point, 1e6).device_s / LAUNCH_S < 1.25
