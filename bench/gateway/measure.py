"""Requests of one text and of many, to a server that computes and to one that does not."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson

from bench.client import Client, Endpoint
from bench.fleet.cpu import OTHERS, CpuMeter
from bench.fleet.processes import florilege
from bench.gateway.results import STAGES, GatewayCase, GatewayResults
from bench.gateway.socket_client import Reply, SocketClient
from bench.machine import describe_machine
from bench.statistics import latency
from bench.texts import Texts


@dataclass(frozen=True)
class Shape:
    inputs: int
    tokens: int  # an input
    turn: int  # requests of each client, one after another


@dataclass(frozen=True)
class GatewayEffort:
    rounds: int = 40
    shapes: tuple[Shape, ...] = (Shape(1, 16, 50), Shape(256, 80, 4))
    devices: tuple[str, ...] = ("real", "simulated")
    server: tuple[str, ...] = ("-m", "bench.gateway.server")


@dataclass(eq=False)
class _Samples:
    """Of one shape."""

    stages_s: list[dict[str, float]] = field(default_factory=list)  # of each request at the socket
    client_s: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    loop_cpu_s: list[float] = field(default_factory=list)  # each request, of each turn
    cpu_s: list[float] = field(default_factory=list)


async def measure_gateway(effort: GatewayEffort, tell: Callable[[str], None]) -> GatewayResults:
    """Raises StartFailed and RequestFailed."""
    machine, cases, others_cores = describe_machine(), [], []
    told: dict[str, Any] = {}
    for device in effort.devices:
        flags = ("--simulated",) if device == "simulated" else ()
        tell(f"{device}: starting the server")
        async with florilege((*effort.server, *flags)) as server:
            with ExitStack() as stack:
                meter = stack.enter_context(closing(SocketClient(server.url)))
                told = orjson.loads(meter.get("/"))
                at_socket = stack.enter_context(closing(SocketClient(told["url"])))
                cpu = CpuMeter({"server": [server.pid], "load": [os.getpid()]})
                async with Client(Endpoint(told["url"]), told["model"]) as client:
                    run = _Run(meter, at_socket, client, effort)
                    for shape in effort.shapes:
                        samples = await run.measure(shape, tell)
                        name = device if device == "simulated" else _device(told)
                        cases.append(_case(name, shape, samples))
                others_cores.append(cpu.cores()[OTHERS])
    return GatewayResults(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        model=told["model"],
        rounds=effort.rounds,
        others_cores=max(others_cores),
        cases=cases,
    )


def _device(told: dict[str, Any]) -> str:
    return f"{told['kernels']} {told['dtype']}"


@dataclass(eq=False)
class _Run:
    meter: SocketClient
    at_socket: SocketClient
    client: Client
    effort: GatewayEffort

    async def measure(self, shape: Shape, tell: Callable[[str], None]) -> _Samples:
        """In turns; the first warms up."""
        tell(
            f"{self.effort.rounds} rounds of {shape.turn} × {shape.inputs} × {shape.tokens} tokens"
        )
        texts, samples = Texts("gateway"), _Samples()
        for number in range(1 + self.effort.rounds):
            turn = _Samples()
            self._socket_turn(shape, texts, turn)
            await self._client_turn(shape, texts, turn)
            for name, values in vars(turn).items() if number else ():
                getattr(samples, name).extend(values)
        return samples

    def _socket_turn(self, shape: Shape, texts: Texts, samples: _Samples) -> None:
        bodies = [
            orjson.dumps(
                {"model": self.client.model, "input": _inputs(shape, texts)}
                | {"encoding_format": "base64"}
            )
            for _ in range(shape.turn)
        ]
        requests = [self.at_socket.request("POST", "/v1/embeddings", body) for body in bodies]
        before = orjson.loads(self.meter.get("/"))
        replies = [self.at_socket.send(request) for request in requests]
        after = orjson.loads(self.meter.get("/"))
        for reply, passage in zip(replies, after["passages"], strict=True):
            samples.stages_s.append(_stages(reply, passage))
            samples.steps.append(passage["steps"])
        for name, of_turn in (("loop_cpu_s", samples.loop_cpu_s), ("cpu_s", samples.cpu_s)):
            of_turn.append((after[name] - before[name]) / shape.turn)

    async def _client_turn(self, shape: Shape, texts: Texts, samples: _Samples) -> None:
        inputs = [_inputs(shape, texts) for _ in range(shape.turn)]
        for its_inputs in inputs:
            began_s = time.perf_counter()
            await self.client.embed(its_inputs)
            samples.client_s.append(time.perf_counter() - began_s)
        await asyncio.to_thread(self.meter.get, "/")  # takes the passages of these


def _inputs(shape: Shape, texts: Texts) -> list[str]:
    return [texts.of(shape.tokens) for _ in range(shape.inputs)]


def _stages(reply: Reply, passage: dict[str, Any]) -> dict[str, float]:
    """Seconds of each of STAGES; they sum to the latency."""
    first, last, told = passage["first"], passage["last"], reply.stages_s
    values = (
        first["app"] - reply.began_s,
        first["submit"] - first["app"] - told["tokenize"],
        told["tokenize"],
        first["receive"] - first["submit"],
        first["step"] - first["receive"],
        passage["engine_s"],
        last["stepped"] - first["step"] - passage["engine_s"],
        last["complete"] - last["stepped"],
        last["submitted"] - last["complete"],
        told["encode"],
        first["answer"] - last["submitted"] - told["encode"],
        reply.ended_s - first["answer"],
    )
    return dict(zip(STAGES, values, strict=True))


def _case(device: str, shape: Shape, samples: _Samples) -> GatewayCase:
    def each(*left_out: str) -> list[float]:
        return [sum(s for n, s in r.items() if n not in left_out) for r in samples.stages_s]

    stages = {name: [stages[name] * 1e6 for stages in samples.stages_s] for name in STAGES}
    return GatewayCase(
        device=device,
        inputs=shape.inputs,
        tokens=shape.tokens,
        requests=len(samples.client_s),
        steps=float(np.mean(samples.steps)),
        socket=latency(each()),
        client=latency(samples.client_s),
        engine=latency([stages["engine"] for stages in samples.stages_s]),
        tokenize=latency([stages["tokenize"] for stages in samples.stages_s]),
        overhead=latency(each("engine", "tokenize")),
        stages_us={name: float(np.median(us)) for name, us in stages.items()},
        stages_p99_us={name: float(np.percentile(us, 99)) for name, us in stages.items()},
        loop_cpu_us=float(np.median(samples.loop_cpu_s)) * 1e6,
        cpu_us=float(np.median(samples.cpu_s)) * 1e6,
    )
