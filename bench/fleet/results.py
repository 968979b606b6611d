"""What a run of `hop` or `scale` gave, as it stands in the JSON file."""

from dataclasses import dataclass, field

from bench.machine import Machine
from bench.statistics import Latency

SCHEMA = 1


@dataclass(frozen=True)
class HopRow:
    """One way for a job, or a request, to come to a worker and back."""

    name: str
    count: int  # timed
    latency: Latency
    stages_ms: dict[str, float]  # medians; they need not sum to that of the whole
    cpu_us: dict[str, float]  # each, by process


@dataclass(frozen=True)
class Command:
    """What Redis says of a command, over all jobs of its transport."""

    name: str
    a_job: float  # calls
    each_us: float  # in Redis


@dataclass(frozen=True)
class HopResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    tokens: int  # a job
    rounds: int
    pause_s: float  # before each
    others_cores: float  # what the machine's other work took meanwhile
    rows: list[HopRow]
    commands: list[Command]
    schema: int = SCHEMA


@dataclass(frozen=True)
class ScaleRow:
    """One kind of request on so many workers, as fast as one gateway answers."""

    workers: int
    inputs: int  # a request
    tokens: int  # an input
    clients: int
    requests: int  # timed
    latency: Latency
    requests_per_s: float
    tokens_per_s: float
    device_share: float  # of what the devices could compute
    cores: dict[str, float]  # busy, by process or kind of process

    @property
    def gateway_ms(self) -> float:
        """CPU of the gateways for each request."""
        return self.cores["gateway"] / self.requests_per_s * 1000


@dataclass(frozen=True)
class ScaleHop:
    """One client, so many idle workers: the same requests to a gateway and to one process."""

    workers: int
    requests: int
    one_process: Latency  # `serve`, over memory
    gateway: Latency  # over Redis


@dataclass(frozen=True)
class ScaleResults:
    date: str  # ISO 8601, UTC
    machine: Machine
    device_tokens_per_s: float  # of each worker
    seconds: float  # timed, each row
    rows: list[ScaleRow] = field(default_factory=list)
    hops: list[ScaleHop] = field(default_factory=list)
    gateways: int = 1  # processes, on one port
    schema: int = SCHEMA
