"""python -m bench"""

import sys


def main() -> None:
    if sys.argv[1:2] == ["gpu"]:  # on a host that may have nothing but torch
        from bench.gpu.command import main as gpu

        gpu(sys.argv[2:])
    else:
        from bench.command import main as server

        server(sys.argv[1:])


if __name__ == "__main__":
    main()
