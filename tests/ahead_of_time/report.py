"""`python -m ahead_of_time.report FILE...`: what versions of triton made of the kernels, as a page.

Each file is what `python -m ahead_of_time` wrote with one version. Exits with 1 where one spills.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

Kernel = Mapping[str, int | str]

_HEADING = """# Kernels, compiled for sm_90

Written by `make kernels`, without a GPU: by the launches that serving makes, with ptxas of the
triton wheel. Registers and spilled bytes are those of a thread, shared memory that of a program;
wgmma and mma are instructions of the tensor cores in the code, the latter of the generation before.
"""


def main() -> None:
    kernels = [
        json.loads(line) for path in sys.argv[1:] for line in Path(path).read_text().splitlines()
    ]
    print(_page(kernels), end="")
    spilling = [kernel for kernel in kernels if kernel["spilled_bytes"]]
    for kernel in spilling:
        print(f"{kernel['case']}: {kernel['spilled_bytes']} bytes spilled", file=sys.stderr)
    sys.exit(bool(spilling))


def _page(kernels: Sequence[Kernel]) -> str:
    versions = sorted({str(kernel["triton"]) for kernel in kernels})
    by_name: dict[tuple[str, str], dict[str, Kernel]] = defaultdict(dict)
    for kernel in kernels:
        by_name[str(kernel["case"]), str(kernel["kernel"])][str(kernel["triton"])] = kernel
    spilled = sum(bool(kernel["spilled_bytes"]) for kernel in kernels)
    columns = ["launch", "kernel", "warps"] + [
        f"{column}, {version}"
        for version in versions
        for column in ("registers", "spilled", "shared KiB", "wgmma + mma")
    ]
    lines = [
        _HEADING,
        f"{len(kernels)} kernels by triton {' and '.join(versions)}; {spilled} of them spill.",
        "",
        _row(columns),
        _row(["---"] * 2 + ["---:"] * (len(columns) - 2)),
    ]
    lines += [
        _row([*name, str(next(iter(made.values()))["warps"]), *_cells(made, versions)])
        for name, made in by_name.items()
    ]
    return "\n".join(lines) + "\n"


def _cells(made: Mapping[str, Kernel], versions: Sequence[str]) -> list[str]:
    cells: list[str] = []
    for kernel in (made[version] for version in versions):
        shared = f"{int(kernel['shared_bytes']) / 1024:.0f}"
        products = f"{kernel['wgmma']} + {kernel['mma']}"
        cells += [str(kernel["registers"]), str(kernel["spilled_bytes"]), shared, products]
    return cells


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
