"""Which configurations were hot, kept on disk: a restart need not learn them again."""

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.device.buckets import Configuration, seqlen_bucket

logger = logging.getLogger(__name__)

_VERSION = 1
_MOST_MODELS = 64  # in one file; those not saved for longest go first
_MOST_CONFIGURATIONS = 256  # of a model: as many as it keeps graphs
_USES_PER_SAVE = 1000

_COLD_TOKENS = (64, 128, 256, 512)  # of one text: queries, most often


def cold_configurations(kind: str, bounded: bool = False) -> tuple[Configuration, ...]:
    """What to capture for a model that never ran here. `bounded`: its attention bakes a bound in"""
    return tuple(
        Configuration(kind, tokens, slots=1, max_seqlen=seqlen_bucket(tokens) if bounded else 0)
        for tokens in _COLD_TOKENS
    )


class HotList:
    """Uses by configuration of one model, in a file that other models share.

    `model_key` names all that a configuration's worth depends on: model, revision, dtype, device
    and attention backend. A file that cannot be read is as good as none.
    """

    def __init__(self, path: Path, model_key: str, cold: Sequence[Configuration] = ()) -> None:
        self._path, self._model_key = path, model_key
        rows = _models_of(path).get(model_key, [])
        # Half of what it was at each start, so that what is hot now overtakes what once was.
        self._uses = Counter({_configuration(row): row[0] // 2 for row in rows if row[0] > 1})
        remembered = [configuration for configuration, _ in self._uses.most_common()]
        self._hottest = remembered or list(cold)
        self._unsaved = 0

    def count(self, configuration: Configuration) -> None:
        self._uses[configuration] += 1
        self._unsaved += 1

    def hottest(self) -> list[Configuration]:
        """Of the runs before, the most used first; without any, the cold list."""
        return list(self._hottest)

    def save_when_due(self) -> None:
        """Save every thousand uses, for a process that ends without saying so."""
        if self._unsaved >= _USES_PER_SAVE:
            self.save()

    def save(self) -> None:
        """Replace what the file says of this model. A file that cannot be written is logged."""
        self._unsaved = 0
        models = _models_of(self._path)
        models.pop(self._model_key, None)
        models[self._model_key] = [
            [uses, key.kind, key.tokens, key.slots, key.max_seqlen]
            for key, uses in self._uses.most_common(_MOST_CONFIGURATIONS)
        ]
        kept = dict(list(models.items())[-_MOST_MODELS:])
        try:
            _replace(self._path, json.dumps({"version": _VERSION, "models": kept}))
        except OSError as error:
            logger.warning("hot configurations are not saved: %s", error)


Row = list[Any]  # uses, kind, tokens, slots, max_seqlen


def _models_of(path: Path) -> dict[str, list[Row]]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s is not read: %s", path, error)
        return {}
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        logger.warning("%s is not read: not of version %d", path, _VERSION)
        return {}
    models = content.get("models")
    if not isinstance(models, dict) or not all(map(_are_rows, models.values())):
        logger.warning("%s is not read: it holds something else", path)
        return {}
    return models


def _are_rows(rows: object) -> bool:
    return isinstance(rows, list) and all(map(_is_row, rows))


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 5 or not isinstance(row[1], str):
        return False
    uses, _, tokens, slots, max_seqlen = row
    numbers = (uses, tokens, slots, max_seqlen)
    return all(type(number) is int and number >= 0 for number in numbers)


def _configuration(row: Row) -> Configuration:
    return Configuration(kind=row[1], tokens=row[2], slots=row[3], max_seqlen=row[4])


def _replace(path: Path, text: str) -> None:
    """Whoever reads meanwhile finds the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
