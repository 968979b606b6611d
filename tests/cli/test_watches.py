"""What a process tells of itself while it serves."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from redis_server import running_redis
from transport_jobs import make_spec

from cli import gateway, watches
from cli.settings import load_settings
from cli.watches import watched
from cli.wiring import Access, Observers
from observability.gpus import GpuReading
from observability.health import Health
from observability.metrics import Metrics
from observability.tracing import UNTRACED, RequestTrace, TracedBatch
from transport.redis.client import RedisJobClient

WaitUntil = Callable[..., Awaitable[None]]


class OneGpu:
    def read(self) -> Mapping[str, GpuReading]:
        return {"3": GpuReading(used_bytes=7)}


class ClosedTracing:
    """Remembers whether it was."""

    closed = False

    def begin_request(self, traceparent: str | None) -> RequestTrace:
        return UNTRACED

    def record_batch(self, batch: TracedBatch) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def used(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("florilege_gpu_memory_used_bytes", {"gpu": "3"})


async def test_gpus_are_told_of_where_a_model_runs_on_one(
    monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(watches, "open_nvml", OneGpu)
    observers = Observers(Metrics(), Health())
    async with watched(observers, [make_spec(runtime={"device": "cpu"})]):
        lag = "florilege_loop_lag_seconds_count"
        await wait_until(lambda: observers.metrics.registry.get_sample_value(lag))
        assert used(observers.metrics) is None
    async with watched(observers, [make_spec(runtime={"device": "cuda:1"})]):
        await wait_until(lambda: used(observers.metrics) == 7)


async def test_worker_on_a_gpu_serves_without_the_library_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    async with watched(Observers(Metrics(), Health()), [make_spec(runtime={"device": "cuda:0"})]):
        pass


async def test_last_traces_are_sent_when_all_else_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, stop, tracing = list[str](), asyncio.Event(), ClosedTracing()
    close, close_access = RedisJobClient.close, Access.close

    async def closing_client(client: RedisJobClient) -> None:
        assert not tracing.closed
        ends.append("client")
        await close(client)

    async def closing_access(access: Access) -> None:
        assert not tracing.closed
        ends.append("access")
        await close_access(access)

    monkeypatch.setattr(RedisJobClient, "close", closing_client)
    monkeypatch.setattr(Access, "close", closing_access)
    monkeypatch.setattr(gateway, "build_tracing", lambda *_: tracing)
    monkeypatch.setattr(gateway, "stop_signal", lambda: stop)
    monkeypatch.setattr(gateway, "show_banner", lambda *_: stop.set())
    with running_redis() as redis:
        given = {"redis_url": redis.url, "no_auth": True, "port": 0, "admin_port": 0}
        await gateway.serve(load_settings(given | {"data_dir": tmp_path}, {}))
    assert ends == ["client", "access"]
    assert tracing.closed
