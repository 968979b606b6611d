"""What holds for the repository as a whole."""

import re
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from checkpoint.families import FAMILIES as NAMED
from cli.configuration_page import configuration_page
from cli.main import app
from cli.models_page import models_page
from cli.observability_page import observability_page
from engine.families import FAMILIES as BUILT

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))

MOST_LINES = {"tests": 600}  # 400 elsewhere
LONGER: dict[str, int] = {}  # exceptions, each with its reason beside it

COMMANDS = {"serve", "gateway", "worker", "keys", "usage", "db", "calibrate", "check-config"}
COMMANDS |= {"bench"}

EMPTY_NAMES = re.compile(r"utils?|common|helpers?|base_.*|misc")
EMPTY_CLASSES = re.compile(r"^class \w*(Manager|Handler|Processor)\b", re.MULTILINE)


def sources() -> list[Path]:
    return [path for name in (*PACKAGES, "tests") for path in (ROOT / name).rglob("*.py")]


def test_no_file_is_longer_than_one_noun() -> None:
    for path in sources():
        name = str(path.relative_to(ROOT))
        limit = LONGER.get(name, MOST_LINES.get(name.split("/")[0], 400))
        assert len(path.read_text().splitlines()) <= limit, name


def test_no_name_says_nothing() -> None:
    for path in sources():
        assert not EMPTY_NAMES.fullmatch(path.stem), path
        assert not EMPTY_CLASSES.search(path.read_text()), path


def test_no_package_lies_below_tests() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_environment_is_read_in_one_file() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in sources()
        if path.parts[len(ROOT.parts)] != "tests"
        and re.search(r"os\.(environ|getenv)", path.read_text())
    }
    assert {name for name in readers if not name.startswith("bench/")} == {"cli/settings.py"}


def test_both_halves_of_a_family_have_one_key() -> None:
    assert set(NAMED) == set(BUILT)


def test_no_command_is_there_that_is_not_in_the_plan() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert set(group.commands) <= COMMANDS
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0


def test_configuration_page_is_what_the_settings_say() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == configuration_page()


def test_observability_page_is_what_the_metrics_say() -> None:
    assert (ROOT / "docs" / "observability.md").read_text() == observability_page()


def test_models_page_is_what_the_registry_says() -> None:
    assert (ROOT / "docs" / "models.md").read_text() == models_page()


def test_documents_link_to_files_that_exist() -> None:
    for document in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"
