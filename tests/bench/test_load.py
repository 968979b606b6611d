"""The closed loop."""

import asyncio

import pytest

from bench.client import RequestFailed
from bench.load import Request, closed_loop


class Service:
    """Counts what is in flight; answers after a few turns of the loop."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.most_in_flight = 0
        self.seen: list[int] = []

    def request(self, number: int) -> Request:
        async def send() -> int:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            for _ in range(1 + number % 3):
                await asyncio.sleep(0)
            self.in_flight -= 1
            self.seen.append(number)
            return 10

        return send


@pytest.mark.parametrize("clients", [1, 4, 16])
async def test_no_more_requests_are_in_flight_than_there_are_clients(clients: int) -> None:
    service = Service()
    await closed_loop([service.request(i) for i in range(64)], clients)
    assert service.most_in_flight == clients


@pytest.mark.parametrize("clients", [1, 4, 16])
async def test_every_request_is_sent_once_and_counted(clients: int) -> None:
    service = Service()
    load = await closed_loop([service.request(i) for i in range(50)], clients)
    assert sorted(service.seen) == list(range(50))
    assert load.tokens == 500
    assert len(load.latencies_s) == 50
    assert 0 < max(load.latencies_s) <= load.wall_s


async def test_failed_request_ends_the_run_as_itself() -> None:
    service = Service()

    async def fail() -> int:
        raise RequestFailed("503")

    with pytest.raises(RequestFailed, match="503"):
        await closed_loop([service.request(0), fail, *map(service.request, range(100))], 2)
    assert len(service.seen) < 100
