import json
import logging
from pathlib import Path

import pytest

from engine.device.buckets import TOKEN_BUCKETS, Configuration
from engine.device.hot_list import HotList, cold_configurations

SMALL = Configuration("embed", 64, 1)
LARGE = Configuration("score", 512, 8, max_seqlen=128)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "graphs.json"


def use(hot: HotList, configuration: Configuration, times: int) -> None:
    for _ in range(times):
        hot.count(configuration)


def saved(path: Path, uses: dict[Configuration, int], key: str = "a") -> None:
    hot = HotList(path, key)
    for configuration, times in uses.items():
        use(hot, configuration, times)
    hot.save()


def test_most_used_comes_first_after_a_restart(path: Path) -> None:
    saved(path, {SMALL: 3, LARGE: 5})
    assert HotList(path, "a").hottest() == [LARGE, SMALL]


def test_what_was_used_once_is_forgotten(path: Path) -> None:
    saved(path, {SMALL: 1, LARGE: 2})
    assert HotList(path, "a").hottest() == [LARGE]


def test_what_is_hot_now_overtakes_what_once_was(path: Path) -> None:
    saved(path, {LARGE: 100})
    for _ in range(4):
        saved(path, {SMALL: 20})
    assert HotList(path, "a").hottest() == [SMALL, LARGE]


def test_models_share_a_file_and_nothing_else(path: Path) -> None:
    first, second = HotList(path, "a"), HotList(path, "b")
    use(first, SMALL, 4)
    use(second, LARGE, 4)
    second.save()
    first.save()
    assert HotList(path, "a").hottest() == [SMALL]
    assert HotList(path, "b").hottest() == [LARGE]
    assert HotList(path, "c").hottest() == []


def test_cold_list_is_for_a_model_without_a_past(path: Path) -> None:
    cold = cold_configurations("embed", bounded=True)
    assert cold[0] == Configuration("embed", 64, 1, max_seqlen=64)
    assert HotList(path, "a", cold).hottest() == list(cold)
    saved(path, {LARGE: 4})
    assert HotList(path, "a", cold).hottest() == [LARGE]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "\xff",
        json.dumps({"version": 2, "models": {"a": [[9, "embed", 64, 1, 0]]}}),
        json.dumps({"version": 1, "models": []}),
        json.dumps({"version": 1, "models": {"a": {}}}),
        json.dumps({"version": 1, "models": {"a": [[9, "embed", 64, 1]]}}),
        json.dumps({"version": 1, "models": {"a": [["9", "embed", 64, 1, 0]]}}),
        json.dumps({"version": 1, "models": {"a": [[9, "embed", -64, 1, 0]]}}),
        json.dumps({"version": 1, "models": {"a": [[9, 1, 64, 1, 0]]}}),
    ],
)
def test_file_that_cannot_be_read_is_as_good_as_none(
    path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_text(content, encoding="latin-1")
    with caplog.at_level(logging.WARNING):
        hot = HotList(path, "a")
    assert hot.hottest() == []
    assert len(caplog.records) == 1
    use(hot, SMALL, 4)
    hot.save()
    assert HotList(path, "a").hottest() == [SMALL]


def test_absent_file_is_no_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert HotList(path, "a").hottest() == []
    assert not caplog.records


def test_file_that_cannot_be_written_is_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.mkdir(parents=True)  # a directory in its place
    with caplog.at_level(logging.WARNING):
        saved(path, {SMALL: 4})
    assert "not saved" in caplog.text
    assert list(path.parent.iterdir()) == [path]  # nothing half-written stays


def test_file_does_not_grow_without_bound(path: Path) -> None:
    many = {
        Configuration("embed", tokens, slots): 2
        for tokens in TOKEN_BUCKETS
        for slots in (1, 8, 32, 128)
    }
    saved(path, many)
    assert len(HotList(path, "a").hottest()) == 256
    for number in range(70):
        saved(path, {SMALL: 2}, key=f"model {number}")
    models = json.loads(path.read_text())["models"]
    assert list(models) == [f"model {number}" for number in range(6, 70)]
