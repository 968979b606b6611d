"""5,000 texts in four languages; data/README.md says where they come from."""

import hashlib
import json
import lzma
from collections.abc import Mapping, Sequence
from functools import cache

from reference import archive

FILE = "package-texts.json.xz"
LANGUAGES = ("en", "de", "fr", "ja")
PROMPT = "query: "


@cache
def read() -> Mapping[str, Sequence[str]]:
    """Texts by language."""
    texts: Mapping[str, Sequence[str]] = json.loads(
        lzma.decompress((archive.DATA / FILE).read_bytes())
    )
    return texts


def texts() -> list[str]:
    """Of all languages, one language after another."""
    return [text for of_language in read().values() for text in of_language]


def pairs() -> list[tuple[str, str]]:
    """A line and some other text of the same language, 500 of each."""
    return [
        (texts[i], texts[-i - 1])
        for texts in read().values()
        for i in range(1, 1000, 2)  # single lines stand at odd places
    ]


def sha256() -> str:
    return hashlib.sha256((archive.DATA / FILE).read_bytes()).hexdigest()
