"""`florilege calibrate`, and the models that wiring loads with what it wrote."""

import json
from pathlib import Path

import numpy as np
import pytest
from reference.sharp import write_checkpoint
from typer.testing import CliRunner

from checkpoint.calibration import FILE_NAME
from cli.calibrate import measure_ranges
from cli.loading import load_model
from cli.main import app
from cli.settings import load_settings

TEXTS = [f"text {i} of a kind" for i in range(40)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-mean-dense", directory)
    return directory


def calibrate(model: Path, *arguments: str, texts: str = "\n".join(TEXTS)) -> tuple[int, str]:
    file = model.parent / "texts.txt"
    file.write_text(texts)
    command = ["calibrate", str(model), str(file), "--dtype", "float32", *arguments]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.stderr


def test_ranges_are_those_of_the_answers_and_the_next_start_finds_them(model: Path) -> None:
    code, _ = calibrate(model)
    assert code == 0
    written = json.loads((model / FILE_NAME).read_text())
    settings = load_settings({"dtype": "float32", "self_test": "off"}, {})
    loaded = load_model(settings, str(model))
    assert loaded.spec.calibration is not None
    assert written["texts"] == 40
    np.testing.assert_allclose(written["ranges"], measure_ranges(loaded, TEXTS), rtol=1e-6)
    low, high = np.array(loaded.spec.calibration).T
    assert (low < high).all()
    assert low.min() >= -1  # of unit vectors, as the model answers them
    assert high.max() <= 1


def test_ranges_may_lie_elsewhere(model: Path) -> None:
    elsewhere = model.parent / "ranges.json"
    assert calibrate(model, "--output", str(elsewhere))[0] == 0
    flags = {"self_test": "off", "calibration": (f"model={elsewhere}",)}
    assert load_model(load_settings(flags, {}), str(model)).spec.calibration is not None
    assert not (model / FILE_NAME).exists()


@pytest.mark.parametrize("texts", ["", "one text alone"])
def test_texts_too_few_to_have_ranges_are_refused(model: Path, texts: str) -> None:
    code, errors = calibrate(model, texts=texts)
    assert code == 1
    assert "Traceback" not in errors
    assert not (model / FILE_NAME).exists()


def test_model_of_scores_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    write_checkpoint("bert-scores", directory)
    code, errors = calibrate(directory)
    assert code == 1
    assert "no float vectors" in errors
