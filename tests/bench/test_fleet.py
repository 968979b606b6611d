"""Tiny runs of the suites that start what they measure, and what they start."""

import os
import time

import pytest

from bench.fleet import processes
from bench.fleet.cpu import OTHERS, CpuMeter
from bench.fleet.hop import HopEffort, measure_hop
from bench.fleet.processes import StartFailed, florilege, redis_server
from bench.fleet.report import scale_markdown
from bench.fleet.scale import ScaleEffort, measure_scale
from bench.fleet.ways import BARE, GATEWAY_AND_WORKER, MEMORY, ONE_PROCESS, PING, REDIS


def silent(_: str) -> None:
    pass


async def test_hop_measures_every_way_with_its_stages_and_its_processes() -> None:
    results = await measure_hop(HopEffort(rounds=2, turn=3), silent)
    rows = {row.name: row for row in results.rows}
    assert [*rows] == [PING, MEMORY, BARE, REDIS, ONE_PROCESS, GATEWAY_AND_WORKER]
    for row in rows.values():
        assert row.count == 6
        assert 0 < row.latency.p50_ms <= row.latency.max_ms
        assert all(used_us > 0 for used_us in row.cpu_us.values())
    for name in (MEMORY, BARE, REDIS):
        stages_ms = rows[name].stages_ms
        assert [*stages_ms] == ["to the worker", "in the worker", "back"]
        assert all(0 < took_ms < rows[name].latency.max_ms for took_ms in stages_ms.values())
    for name in (ONE_PROCESS, GATEWAY_AND_WORKER):
        assert [*rows[name].stages_ms] == ["tokenize", "job", "encode"]
    assert rows[REDIS].cpu_us.keys() == {"gateway", "redis", "worker"}
    calls = {command.name: command.a_job for command in results.commands}
    assert calls["evalsha"] >= 2  # to submit, and to finish


async def test_scale_measures_more_and_more_workers() -> None:
    effort = ScaleEffort(
        workers=(1, 2),
        shapes=((1, 16), (2, 32)),
        device_tokens_per_s=200_000,
        seconds=0.2,
        warmup_s=0.05,
        hop_rounds=1,
    )
    results = await measure_scale(effort, silent)
    assert [(row.workers, row.inputs, row.tokens) for row in results.rows] == [
        *((1, 1, 16), (1, 2, 32)),
        *((2, 1, 16), (2, 2, 32)),
    ]
    for row in results.rows:
        tokens_per_s = row.requests_per_s * row.inputs * row.tokens
        assert row.tokens_per_s == pytest.approx(tokens_per_s)
        assert 0 < row.device_share <= 1
        assert row.cores.keys() == {"gateway", "redis", "workers", "load", OTHERS}
        assert row.gateway_ms > 0
    assert [hop.workers for hop in results.hops] == [1, 2]
    assert all(hop.gateway.p50_ms > 2 * 256 / 200 for hop in results.hops)  # the device's own time


async def test_scale_measures_several_gateways_on_one_port() -> None:
    effort = ScaleEffort(
        workers=(1,),
        shapes=((1, 16),),
        device_tokens_per_s=200_000,
        seconds=0.3,
        warmup_s=0.05,
        hop_rounds=1,
        gateways=2,
    )
    results = await measure_scale(effort, silent)
    (row,) = results.rows
    assert row.requests_per_s > 0
    assert "2 gateway processes on one port" in scale_markdown(results, "plot.svg")


def test_cpu_is_that_of_whoever_used_it() -> None:
    meter = CpuMeter({"ours": [os.getpid()], "parent": [os.getppid()]})
    until_s = time.process_time() + 0.1
    while time.process_time() < until_s:
        pass
    used_s = meter.used_s()
    assert 0.1 <= used_s["ours"] < 0.3
    assert used_s["parent"] < 0.1
    assert meter.cores()["ours"] <= 1.5


async def test_a_process_that_ends_early_says_why() -> None:
    with pytest.raises(StartFailed, match="out of order"):
        async with florilege(("-c", "raise SystemExit('out of order')")):
            raise AssertionError("it does not serve")


async def test_settings_of_the_operator_do_not_reach_what_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLORILEGE_MAX_INPUTS", "1")
    script = "import os; print(sorted(k for k in os.environ if k.startswith('FLORILEGE_')))"
    with pytest.raises(StartFailed) as failed:
        async with florilege(("-c", script)):
            raise AssertionError("it does not serve")
    assert "MAX_INPUTS" not in str(failed.value)
    assert "FLORILEGE_DATA_DIR" in str(failed.value)


async def test_redis_is_gone_afterwards() -> None:
    async with redis_server() as redis:
        os.kill(redis.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(redis.pid, 0)


async def test_a_process_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_STOP_S", 0.1)
    script = (
        "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        """print('{"event":"serving"}', flush=True); threading.Event().wait()"""
    )
    async with florilege(("-c", script)) as started:
        os.kill(started.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(started.pid, 0)
