"""What a request says of itself."""

from api.context import headers_of


def test_first_of_a_repeated_header_counts() -> None:
    raw = [(b"x-a", b"1"), (b"x-b", b"2"), (b"x-a", b"3")]
    assert headers_of(raw) == {"x-a": "1", "x-b": "2"}
