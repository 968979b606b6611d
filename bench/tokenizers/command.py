"""`python -m bench tokenizers`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.progress import exit_on, tell
from bench.results import keep, results_path
from bench.tokenizers.corpus import CorpusMissing, descriptions, odd_texts
from bench.tokenizers.environment import LibrariesMissing
from bench.tokenizers.libraries import LIBRARIES
from bench.tokenizers.measure import TokenizersPlan, compare_libraries
from bench.tokenizers.report import tokenizers_markdown
from checkpoint.errors import CheckpointError
from checkpoint.find import DEFAULT_MODEL, find_model

_DESCRIPTION = "Tokenizer libraries beside ours: the same ids first, then CPU time."
# Where `make test-data` puts them.
_E5 = Path("build/packages/semantra_multilingual/assets/multilingual-e5-small/tokenizer.json")
_QWEN3 = Path("build/tokenizers/qwen3/tokenizer.json")
_TIMED = 20_000  # descriptions, which are not checked too


class TokenizerMissing(Exception):
    """A tokenizer.json that is not there."""


def main(arguments: Sequence[str]) -> None:
    given = _parser().parse_args(arguments)
    with exit_on(CheckpointError, CorpusMissing, LibrariesMissing, TokenizerMissing):
        files = dict(given.tokenizers) or _usual_tokenizers()
        for path in files.values():
            if not path.is_file():
                raise TokenizerMissing(f"no {path} here: run make test-data, or name others")
        texts = descriptions()
        plan = TokenizersPlan(
            tokenizers=files,
            libraries=given.libraries,
            texts=texts[: given.texts],
            odd=odd_texts(),
            timed=texts[-_TIMED:],
            rounds=given.rounds,
        )
        results = compare_libraries(plan, tell)
    report = tokenizers_markdown(results)
    keep(results, report, given.json)
    sys.stdout.write(report)


def _usual_tokenizers() -> dict[str, Path]:
    """WordPiece, Unigram, byte-level BPE."""
    minilm = find_model(DEFAULT_MODEL).directory / "tokenizer.json"
    return {"all-MiniLM-L6-v2": minilm, "multilingual-e5-small": _E5, "Qwen3": _QWEN3}


def _named(argument: str) -> tuple[str, Path]:
    name, _, path = argument.partition("=")
    return name, Path(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench tokenizers", description=_DESCRIPTION)
    add = parser.add_argument
    add(
        "--tokenizers",
        nargs="+",
        type=_named,
        default=[],
        metavar="NAME=FILE",
        help="tokenizer.json files (those of all-MiniLM-L6-v2, multilingual-e5-small and Qwen3)",
    )
    add("--libraries", nargs="+", choices=tuple(LIBRARIES), default=tuple(LIBRARIES))
    add("--texts", type=int, default=100_000, help="to check the ids of (%(default)s)")
    add("--rounds", type=int, default=9, help="(%(default)s)")
    add("--json", type=results_path, metavar="OUT", help="and OUT's .md")
    return parser
