"""What puts weights into a volume, and the manifest that tells whether they are still those."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "docker" / "fetch_models.py"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
VERIFY = ("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A hub's cache that holds one model, as after a download: snapshots point at blobs."""
    model = tmp_path / "hub" / "models--org--tiny"
    for folder in ("blobs", "refs", f"snapshots/{COMMIT}"):
        (model / folder).mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    (model / "blobs" / "abc").write_text('{"model_type": "bert"}')
    (model / "snapshots" / COMMIT / "config.json").symlink_to("../../blobs/abc")
    return tmp_path


def fetch(volume: Path, *models: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HF_HOME": str(volume), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, SCRIPT, *models]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def verified(volume: Path) -> bool:
    return subprocess.run(VERIFY, cwd=volume, capture_output=True).returncode == 0


def test_fetched_model_is_told_and_listed_in_the_manifest(volume: Path) -> None:
    done = fetch(volume, "org/tiny")
    assert done.stdout == f"org/tiny {COMMIT}\n", done.stderr
    name = f"hub/models--org--tiny/snapshots/{COMMIT}/config.json"
    assert (volume / "SHA256SUMS").read_text().endswith(f"  {name}\n")
    assert verified(volume)


def test_manifest_finds_an_altered_file(volume: Path) -> None:
    fetch(volume, "org/tiny")
    (volume / "hub" / "models--org--tiny" / "blobs" / "abc").write_text('{"model_type": "gpt"}')
    assert not verified(volume)


def test_model_that_cannot_be_had_leaves_no_manifest(volume: Path) -> None:
    done = fetch(volume, "org/other")
    assert done.returncode == 1
    assert "org/other" in done.stderr
    assert not (volume / "SHA256SUMS").exists()


def test_without_a_model_it_says_how_it_is_used(volume: Path) -> None:
    assert "fetch-models MODEL" in fetch(volume).stderr
