"""Libraries in turns, each text new to all of them: equal ids first, then CPU time."""

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import describe_machine
from bench.statistics import spread
from bench.tokenizers.corpus import of_tokens
from bench.tokenizers.libraries import LIBRARIES, REFERENCE
from bench.tokenizers.process import LibraryFailed, LibraryProcess
from bench.tokenizers.results import LibraryRow, Speed, TokenizersResults

Tell = Callable[[str], None]

# Texts of about so many tokens, and how many of them a round has.
LOADS: Mapping[int, int] = {16: 500, 80: 200, 512: 50}

# What special tokens are called where their id is in no vocabulary: nothing that is written.
_NEVER_WRITTEN = "\U000f1234"


@dataclass(frozen=True)
class TokenizersPlan:
    tokenizers: Mapping[str, Path]  # files by name
    libraries: Sequence[str]
    texts: Sequence[str]  # to be checked
    odd: Sequence[str]  # likewise
    timed: Sequence[str]  # to make the loads of
    rounds: int
    seed: int = 0


def compare_libraries(plan: TokenizersPlan, tell: Tell) -> TokenizersResults:
    """Raises LibrariesMissing."""
    results = TokenizersResults(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        texts=len(plan.texts),
        odd_texts=len(plan.odd),
        rounds=plan.rounds,
    )
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.json"
        texts.write_text(json.dumps([*plan.texts, *plan.odd]))
        for name, path in plan.tokenizers.items():
            whole, plain = Path(folder) / "whole.json", Path(folder) / "plain.json"
            parsed = json.loads(path.read_bytes())
            parsed |= {"truncation": None, "padding": None}
            whole.write_text(json.dumps(parsed))
            plain.write_text(json.dumps(without_special_tokens(parsed)))
            results.rows.extend(_compare(plan, name, (whole, plain), texts, tell))
    return results


def without_special_tokens(parsed: dict[str, Any]) -> dict[str, Any]:
    """Their names are text to it, as to the server, whatever a library knows of them."""
    vocab = parsed["model"]["vocab"]
    kept = []
    for token in parsed["added_tokens"]:
        if not token["special"]:
            kept.append(token)
        elif token["id"] >= len(vocab):  # ids of those behind it depend on its place
            kept.append({**token, "content": f"{_NEVER_WRITTEN}{token['id']}"})
        elif isinstance(vocab, list):  # no text holds a piece with a space
            vocab[token["id"]][0] = " " + token["content"]
    return {**parsed, "added_tokens": kept, "post_processor": None}


def _compare(
    plan: TokenizersPlan, tokenizer: str, files: tuple[Path, Path], texts: Path, tell: Tell
) -> Iterator[LibraryRow]:
    right: Sequence[str | None] = ()
    processes, differing = {}, {}
    for name in (REFERENCE, *(name for name in plan.libraries if name != REFERENCE)):
        tell(f"{tokenizer}: {name}")
        path = files[0] if LIBRARIES[name].wants_special_tokens else files[1]
        try:
            process = LibraryProcess.start(name, path)
            found = process.digests(texts)
        except LibraryFailed as failure:
            yield LibraryRow(tokenizer, name, "", str(failure), 0, 0)
            continue
        right = right or found
        wrong = [a is None or a != b for a, b in zip(found, right, strict=True)]
        processes[name] = process
        differing[name] = sum(wrong[: len(plan.texts)]), sum(wrong[len(plan.texts) :])
    tell(f"{tokenizer}: CPU time")
    speeds = _speeds(plan, processes)
    for name, process in processes.items():
        with closing(process):
            yield LibraryRow(tokenizer, name, process.version, None, *differing[name], speeds[name])


def _speeds(
    plan: TokenizersPlan, processes: Mapping[str, LibraryProcess]
) -> dict[str, list[Speed]]:
    order = random.Random(plan.seed)
    speeds: dict[str, list[Speed]] = {name: [] for name in processes}
    for tokens, count in LOADS.items():
        texts = of_tokens(plan.timed, tokens, count * (plan.rounds + 1))
        seconds: dict[str, list[float]] = {name: [] for name in processes}
        for at in range(0, len(texts), count):
            for name in sorted(processes, key=lambda _: order.random()):
                seconds[name].append(processes[name].seconds(texts[at : at + count]))
        reference = seconds[REFERENCE][1:]  # the first round warms up
        for name, (_, *taken) in seconds.items():
            each = spread([1e6 * s / count for s in taken])
            ratio = spread([a / max(b, 1e-9) for a, b in zip(reference, taken, strict=True)])
            speeds[name].append(Speed(tokens, each, ratio))
    return speeds
