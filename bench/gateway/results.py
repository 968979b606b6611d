"""What a run of `gateway` gave, as it stands in the JSON file."""

from dataclasses import dataclass

from bench.machine import Machine
from bench.statistics import Latency

SCHEMA = 1

# Where the time of a request goes, in order; they sum to its latency at the socket.
STAGES = (
    "to the app",
    "auth, limits, body, admission",
    "tokenize",
    "to the worker",
    "to the engine",
    "engine",
    "between steps",
    "from the engine",
    "to the request",
    "encode",
    "headers, metrics",
    "to the client",
)


@dataclass(frozen=True)
class GatewayCase:
    """Requests of one size to one kind of device, one after another."""

    device: str  # the kernels and the dtype that compute, or "simulated"
    inputs: int
    tokens: int  # an input
    requests: int  # timed, of each client
    steps: float  # of the engine, a request
    socket: Latency  # a client of bare sockets: the server's own part
    client: Latency  # the client of the other suites: JSON and base64 on its side too
    engine: Latency
    tokenize: Latency
    overhead: Latency  # of each request: all of `socket` but its engine and its tokenization
    stages_us: dict[str, float]  # medians
    stages_p99_us: dict[str, float]
    loop_cpu_us: float  # of the event loop's thread, each request
    cpu_us: float  # of the whole process


@dataclass(frozen=True)
class GatewayResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    model: str
    rounds: int
    others_cores: float  # what the machine's other work took meanwhile
    cases: list[GatewayCase]
    schema: int = SCHEMA
