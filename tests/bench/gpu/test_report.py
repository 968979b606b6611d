"""Tables are made from what the JSON file holds."""

from typing import Any

from bench.gpu.report import markdown, part_markdown


def part(rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {"title": "Forwards", "state": "done", "tables": {"Times": rows}, **changes}


def lines(rows: list[dict[str, Any]]) -> list[str]:
    return [line for line in part_markdown(part(rows)).splitlines() if line.startswith("|")]


def test_columns_are_those_of_all_rows() -> None:
    assert lines(
        [{"model": "one", "device_ms": 1.5}, {"model": "two", "fault": "none | here"}]
    ) == [
        "| model | device ms | fault |",
        "| --- | ---: | --- |",
        "| one | 1.50 |  |",
        "| two |  | none \\| here |",
    ]


def test_figures_keep_three_digits() -> None:
    values = (0.000123456, 0.25, 1.2345, 12.345, 1234.5, 32768, True, False, "nan")
    assert [lines([{"value": value}])[-1].strip("| ") for value in values] == [
        *("0.000123", "0.25", "1.23", "12.3", "1,234", "32,768"),
        *("yes", "**no**", "nan"),
    ]


def test_cosines_keep_what_tells_them_from_one() -> None:
    assert lines([{"min_cosine": 0.99934567}])[-1] == "| 0.99935 |"


def test_report_says_what_is_missing() -> None:
    cut = part([{"model": "one"}], state="cut short", seconds=12.5)
    failed = part([], state="failed", seconds=1, errors=["Traceback\nValueError: it broke\n"])
    text = markdown({"date": "2026-11-29T12:00:00+00:00", "parts": [cut, failed]})
    assert text.startswith("# GPU, 2026-11-29\n")
    assert "**cut short** after 12.5 s: rows are missing." in text
    assert "ValueError: it broke" in text
