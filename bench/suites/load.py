"""Open loop: a server's latency at given rates of arrivals, up to more than it can answer."""

from dataclasses import dataclass, field

from bench.open_loop import Bounds
from bench.suites.suite import Case, Suite, embed_request
from bench.texts import Size

NAME = "load"
PEAK_TITLE = "Load: the peak, in a closed loop of more and more clients"
SIZES: tuple[Size, ...] = ("mixed",)
MOST_ARRIVALS = 1_000_000  # of a rate: all are prepared before the first leaves
CLIENTS = (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Rate:
    """Requests a second, or that share of the peak of a closed loop."""

    value: float
    is_share: bool = False

    def per_s(self, peak_per_s: float) -> float:
        return self.value * peak_per_s if self.is_share else self.value


DEFAULT_RATES = tuple(Rate(percent / 100, True) for percent in (10, 30, 50, 70, 80, 90, 100, 120))


@dataclass(frozen=True)
class LoadPlan:
    rates: tuple[Rate, ...] = DEFAULT_RATES
    inputs: int = 1  # per request
    warmup_s: float = 1.0
    seconds: float = 10.0  # that count, each rate
    seed: str = ""  # of the arrivals
    bounds: Bounds = field(default_factory=Bounds)


def peak_suite(inputs: int) -> Suite:
    """The closed loops in which the peak is looked for."""
    return Suite(
        name=NAME,
        title=PEAK_TITLE,
        sizes=SIZES,
        cases=lambda sizes: [
            Case(clients=clients, inputs=inputs, tokens=tokens)
            for tokens in sizes
            for clients in CLIENTS
        ],
        prepare=embed_request,
    )
