"""The script that writes the secrets of the compose file, as who has no rights beyond their own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from compose_file import COMPOSE

ROOT = Path(__file__).parents[2]
SCRIPT = "deploy/compose/make-secrets"
USER = 65534 if os.geteuid() == 0 else os.geteuid()  # root may write what is 0444


@pytest.fixture
def tree() -> Iterator[Path]:
    """What the script needs, owned by the user. pytest's own folders are closed to other users."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path in (SCRIPT, "docs/operations.md"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, root / path)
        for made in (root, *root.rglob("*")):
            os.chown(made, USER, -1)
        yield root


def make(tree: Path) -> dict[str, bytes]:
    done = subprocess.run([tree / SCRIPT], user=USER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in (tree / "deploy/compose/secrets").iterdir()}


def test_script_runs_again_as_an_ordinary_user_and_keeps_what_is_there(tree: Path) -> None:
    first = make(tree)
    assert first.keys() == COMPOSE["secrets"].keys()
    assert make(tree) == first
    modes = {path.stat().st_mode & 0o777 for path in (tree / "deploy/compose/secrets").iterdir()}
    assert modes == {0o444}


def test_second_run_writes_the_users_of_an_update(tree: Path) -> None:
    first = make(tree)
    page = tree / "docs/operations.md"
    page.write_text(page.read_text().replace("resetchannels -@all", "resetchannels -@all +echo"))
    second = make(tree)
    assert second.pop("redis_users").count(b"+echo") == 2
    assert first.pop("redis_users").count(b"+echo") == 0
    assert second == first


def test_second_run_fills_what_an_interrupted_first_one_left_empty(tree: Path) -> None:
    first = make(tree)
    secrets = tree / "deploy/compose/secrets"
    (secrets / "grafana_password").unlink()
    (secrets / "grafana_password").touch(0o600)
    (secrets / ".new").touch(0o444)
    second = make(tree)
    assert len(second.pop("grafana_password")) == 64
    assert second == {name: text for name, text in first.items() if name != "grafana_password"}
