"""The gateway's image without a container engine: its recipe's steps, run below a directory."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dockerfile import Dockerfile, assignments

ROOT = Path(__file__).parents[1]
DOCKERFILE = Dockerfile(ROOT / "deploy" / "docker" / "Dockerfile")
STEPS_RUN_HERE = {"ARG", "ENV", "WORKDIR", "COPY", "RUN"}


@dataclass(frozen=True)
class Image:
    """What a container would see below `root`."""

    root: Path

    def place(self, text: str) -> str:
        """A command or path of the image, on this machine."""
        return re.sub(r"(?<![\w./-])/(opt|src|var|models)\b", rf"{self.root}/\1", text)

    @property
    def environment(self) -> dict[str, str]:
        """Of the finished image. PYTHONPATH: nothing of the working tree."""
        variables = DOCKERFILE.environment("gateway", {"PATH": os.environ["PATH"]})
        return {name: self.place(value) for name, value in variables.items()} | {"PYTHONPATH": ""}

    @property
    def command(self) -> list[str]:
        """What a container of it runs."""
        program, *words = DOCKERFILE.last("gateway", "ENTRYPOINT").json()
        return [self.find(program), *words, *DOCKERFILE.last("gateway", "CMD").json()]

    def find(self, program: str) -> str:
        path = shutil.which(program, path=self.environment["PATH"])
        assert path is not None, program
        return path

    def run(
        self, *words: str, check: bool = True, environ: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        environment = {**_bare(), **self.environment, **(environ or {})}
        return subprocess.run(
            [self.find(words[0]), *words[1:]],
            check=check,
            capture_output=True,
            text=True,
            env=environment,
            cwd=self.root,
        )


def build_gateway_image(root: Path) -> Image:
    """Runs the steps of the recipe's stage below `root`. Takes pip half a minute."""
    built = Image(root)
    values = {**_bare(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    directory = built.root
    # The compiler is this machine's.
    stages = [stage for stage in DOCKERFILE.ancestry("gateway-venv") if stage.name != "compiler"]
    for step in (step for stage in stages for step in stage.instructions):
        assert step.word in STEPS_RUN_HERE, step.word
        if step.word == "WORKDIR":
            directory = Path(built.place(step.text))
            directory.mkdir(parents=True)
        elif step.word == "ENV":
            values |= assignments(step.text, values)
        elif step.word == "COPY":
            assert step.text == ". ."
            _copy_context(directory)
        elif step.word == "RUN":
            command = ["sh", "-ec", built.place(step.text)]
            subprocess.run(command, check=True, cwd=directory, env=values)
    return built


def _bare() -> dict[str, str]:
    """The environment of a step: this machine's way to packages, and nothing of ours."""
    ours = re.compile(r"FLORILEGE_|PYTHON|VIRTUAL_ENV|COV|HF_")
    return {name: value for name, value in os.environ.items() if not ours.match(name)}


def _copy_context(directory: Path) -> None:
    """What `.dockerignore` lets in."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    lines = [line for line in lines if not line.startswith("#")]
    assert lines[0] == "*"
    left_out = [line for line in lines[1:] if not line.startswith("!")]

    def ignore(parent: str, names: list[str]) -> set[str]:
        inside = {name: str((Path(parent) / name).relative_to(ROOT)) for name in names}
        return {
            name
            for name, path in inside.items()
            if any(
                fnmatch.fnmatch(f"/{path}", f"*/{pattern.removeprefix('**/')}")
                for pattern in left_out
            )
        }

    for name in (line[1:] for line in lines if line.startswith("!")):
        source, target = ROOT / name, directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy2(source, target)
