"""Write data/package-texts.json.xz: 5,000 texts in four languages, for comparing token ids.

    apt-get update -o Acquire::Languages=en,de,fr,ja
    PYTHONPATH=tests python tests/reference/make_package_texts.py [/var/lib/apt/lists]

They are descriptions of Debian packages: a line, a paragraph, both, or many paragraphs. What is
picked depends on the archive of the day, so the texts are data; see data/README.md.
"""

import hashlib
import json
import lzma
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reference import archive
from reference.package_texts import FILE, LANGUAGES

TEXTS = 1250  # of each language
PARAGRAPHS = 12  # of the longest texts
LONG_EVERY = 40


@dataclass(frozen=True)
class Description:
    package: str
    line: str
    paragraphs: str


def main(lists: Path) -> None:
    texts = {}
    for language in LANGUAGES:
        found = [
            description
            for path in sorted(lists.glob(f"*_main_i18n_Translation-{language}*"))
            for description in _descriptions(_read(path), language)
        ]
        unique = {description.paragraphs: description for description in found}
        texts[language] = list(_texts(sorted(unique.values(), key=_order)))[:TEXTS]
    data = json.dumps(texts, ensure_ascii=False).encode()
    archive.DATA.mkdir(exist_ok=True)
    (archive.DATA / FILE).write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def _read(path: Path) -> str:
    command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]  # whatever compresses it
    return subprocess.run(command, check=True, capture_output=True).stdout.decode()


def _descriptions(file: str, language: str) -> Iterator[Description]:
    for entry in file.split("\n\n"):
        package, _, rest = entry.partition(f"\nDescription-{language}: ")
        line, _, body = rest.partition("\n")
        paragraphs = [text.strip() for text in body.replace("\n ", "\n").split("\n.\n")]
        if rest and paragraphs[0]:
            yield Description(
                package.splitlines()[0].removeprefix("Package: "), line, "\n\n".join(paragraphs)
            )


def _order(description: Description) -> bytes:
    """Packages in an order that has nothing to do with their names."""
    return hashlib.blake2b(description.package.encode(), digest_size=8).digest()


def _texts(descriptions: list[Description]) -> Iterator[str]:
    for i, description in enumerate(descriptions):
        if i % LONG_EVERY == 0:
            yield "\n".join(other.paragraphs for other in descriptions[i : i + PARAGRAPHS])
        elif i % 2:
            yield description.line
        elif i % 4:
            yield description.paragraphs.partition("\n\n")[0]
        else:
            yield f"{description.package}: {description.line}\n{description.paragraphs}"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/var/lib/apt/lists"))
