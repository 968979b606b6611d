"""`python -m ahead_of_time dispatch|product [words of a name]`: a line of JSON for each kernel."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing import get_context

import triton
from ahead_of_time.case import Case
from ahead_of_time.cases import DISPATCH, PRODUCT
from ahead_of_time.compiler import compiled
from ahead_of_time.usage import usage

_CASES = {case.name: case for case in (*DISPATCH, *PRODUCT)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="ahead_of_time")
    parser.add_argument("cases", choices=("dispatch", "product"))
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    cases = DISPATCH if arguments.cases == "dispatch" else PRODUCT
    for line in _lines([case for case in cases if set(arguments.words) <= set(case.name.split())]):
        print(line, flush=True)


def _lines(cases: list[Case]) -> Iterator[str]:
    """A process a core: a compilation takes half a second of one."""
    with get_context("fork").Pool() as pool:
        for lines in pool.imap(_compile, [case.name for case in cases], chunksize=4):
            yield from lines


def _compile(name: str) -> list[str]:
    kernels = compiled(_CASES[name].launch)
    return [
        json.dumps({"triton": triton.__version__, "case": name, **asdict(usage(kernel))})
        for kernel in kernels
    ]


if __name__ == "__main__":
    main()
