"""python -m bench"""

import sys


def main() -> None:
    try:
        run_suite()
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise SystemExit("bench: no aiohttp here: pip install '.[bench]'") from None


def run_suite() -> None:
    suite, arguments = sys.argv[1:2], sys.argv[1:]
    if suite == ["gpu"]:  # on a host that may have nothing but torch
        from bench.gpu.command import main as gpu

        gpu(arguments[1:])
    elif suite == ["cpu"]:
        from bench.cpu.command import main as cpu

        cpu(arguments[1:])
    elif suite in (["hop"], ["scale"]):
        from bench.fleet.command import main as fleet

        fleet(arguments)
    elif suite == ["peers"]:
        from bench.peers.command import main as peers

        peers(arguments[1:])
    elif suite == ["overhead"]:
        from bench.overhead.command import main as overhead

        overhead(arguments[1:])
    elif suite == ["gateway"]:
        from bench.gateway.command import main as gateway

        gateway(arguments[1:])
    elif suite == ["check"]:
        from bench.check.command import main as check

        check(arguments[1:])
    elif suite == ["tokenizers"]:
        from bench.tokenizers.command import main as tokenizers

        tokenizers(arguments[1:])
    elif suite == ["quotas"]:
        from bench.quotas.command import main as quotas

        quotas(arguments[1:])
    else:
        from bench.command import main as server

        server(arguments)


if __name__ == "__main__":
    main()
