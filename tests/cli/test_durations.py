"""Spans of time on the command line."""

import pytest

from cli.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("0s", 0)],
)
def test_a_span_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "d", "1.5h", "-1d", "1D", "1d12h", " 1d", "٣d", "9" * 99]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="span of time"):
        parse_duration(text)
