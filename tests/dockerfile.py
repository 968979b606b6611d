"""Dockerfiles, read as far as the tests need: stages, their instructions, variables."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_REFERENCE = re.compile(r"\$\{?([A-Z_]+)\}?")


@dataclass(frozen=True)
class Instruction:
    word: str
    text: str

    def json(self) -> list[str]:
        """The exec form's arguments. Raises ValueError for the shell form."""
        words: list[str] = json.loads(self.text)
        return words


@dataclass
class Stage:
    name: str
    source: str  # of FROM: a stage's name or an image
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, word: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.word == word]


class Dockerfile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.stages: dict[str, Stage] = {}
        self.globals: list[Instruction] = []  # ARG before the first FROM
        for instruction in _instructions(path.read_text()):
            if instruction.word == "FROM":
                source, _, name = instruction.text.partition(" AS ")
                self.stages[name] = Stage(name, source)
            elif self.stages:
                list(self.stages.values())[-1].instructions.append(instruction)
            else:
                self.globals.append(instruction)

    def ancestry(self, name: str) -> list[Stage]:
        """The stage and those it is from, the first one first."""
        stage = self.stages.get(name)
        return [] if stage is None else [*self.ancestry(stage.source), stage]

    def flat(self, name: str) -> list[Instruction]:
        return [step for stage in self.ancestry(name) for step in stage.instructions]

    def last(self, name: str, word: str) -> Instruction:
        """What is in force at the stage's end."""
        return [step for step in self.flat(name) if step.word == word][-1]

    def environment(self, name: str, start: Mapping[str, str]) -> dict[str, str]:
        """The variables at the stage's end, of an image that begins with `start`."""
        values = dict(start)
        for step in self.flat(name):
            if step.word == "ENV":
                values |= assignments(step.text, values)
        return values


def assignments(text: str, values: Mapping[str, str]) -> dict[str, str]:
    """`A=1 B="two ${C}"`, with what is known put in."""
    found = re.findall(r'([A-Z_]+)=(?:"([^"]*)"|(\S*))', text)
    return {name: expand(quoted or plain, values) for name, quoted, plain in found}


def expand(text: str, values: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: values.get(match[1], ""), text)


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, rest = line.partition(" ")
        yield Instruction(word, re.sub(r"\s+", " ", rest).strip())
