import json
from pathlib import Path
from typing import Any

import pytest
from checkpoint_files import BERT, Read

from checkpoint.calibration import FILE_NAME, read_calibration, write_calibration
from checkpoint.errors import CheckpointError, CheckpointNotFound

RANGES = tuple((-0.5 - i, 0.25 + i) for i in range(32))


def test_ranges_beside_the_model_are_taken(read: Read, tmp_path: Path) -> None:
    assert read()[0].calibration is None
    write_calibration(tmp_path / FILE_NAME, RANGES, texts=1000)
    assert read()[0].calibration == RANGES
    assert json.loads((tmp_path / FILE_NAME).read_text())["texts"] == 1000


def test_ranges_of_the_operator_come_first(read: Read, tmp_path: Path) -> None:
    write_calibration(tmp_path / FILE_NAME, [(0.0, 1.0)] * 32, texts=1)
    write_calibration(tmp_path / "own.json", RANGES, texts=1)
    assert read(calibration=tmp_path / "own.json")[0].calibration == RANGES


def test_ranges_that_are_named_must_be_there(read: Read, tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFound, match=r"none\.json"):
        read(calibration=tmp_path / "none.json")


def test_writing_leaves_nothing_but_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    for _ in range(2):
        write_calibration(path, RANGES, texts=5)
    assert [file.name for file in tmp_path.iterdir()] == ["ranges.json"]
    assert read_calibration(path, 32) == RANGES


def test_ranges_of_another_dimension_are_refused(read: Read, tmp_path: Path) -> None:
    write_calibration(tmp_path / FILE_NAME, RANGES[:31], texts=5)
    with pytest.raises(CheckpointError, match="31 ranges, the model has 32 dimensions"):
        read()


@pytest.mark.parametrize(
    "ends", ["[1, 1]", "[2, 1]", "[NaN, 1]", "[0, Infinity]", "[0]", "[0, 1, 2]", '["0", 1]', "0"]
)
def test_range_without_two_ends_in_order_is_refused_by_its_place(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(f'{{"ranges": [[0, 1], {ends}]}}')
    with pytest.raises(CheckpointError, match="range 1 is"):
        read_calibration(path, 2)


@pytest.mark.parametrize("ranges", [None, {}, "[]"])
def test_file_without_ranges_is_refused(tmp_path: Path, ranges: Any) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(json.dumps({"ranges": ranges}))
    with pytest.raises(CheckpointError, match="no ranges"):
        read_calibration(path, 2)


def test_empty_range_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="range 1 is"):
        write_calibration(tmp_path / "ranges.json", [(0.0, 1.0), (0.5, 0.5)], texts=5)
    assert list(tmp_path.iterdir()) == []


def test_only_vectors_are_calibrated(read: Read, tmp_path: Path) -> None:
    write_calibration(tmp_path / FILE_NAME, RANGES, texts=5)
    splade = {
        "config.json": {**BERT, "architectures": ["BertForMaskedLM"]},
        "modules.json": [
            {"path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"},
            {"path": "1_S", "type": "sentence_transformers.sparse_encoder.models.SpladePooling"},
        ],
        "1_S/config.json": {"pooling_strategy": "max"},
    }
    with pytest.raises(CheckpointError, match="only vectors"):
        read(splade)
