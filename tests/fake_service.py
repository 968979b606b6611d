"""The whole public app over the in-memory transport, with an engine that computes nothing."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from fake_engine import FakeEngine
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transport_jobs import make_spec

from api.app import create_app
from api.gateway import Gateway, GatewayConfig
from api.service import Service
from auth.authenticator import Authenticator
from auth.calendar import Period
from auth.database import sqlite_url
from auth.holder import Holder
from auth.limits.memory import MemoryLimits
from auth.limits.quota import Quotas
from auth.limits.store import LimitStore
from auth.usage.recorder import UsageRecorder
from auth.usage.store import UsageStore
from checkpoint.spec import ModelSpec
from observability.health import Health
from observability.metrics import Metrics
from observability.tracing import UNTRACED, Tracing
from transport.memory import MemoryTransport
from transport.protocols import JobClient, JobConsumer
from worker.engine_thread import EngineThread
from worker.worker import LoadedModel, Worker, WorkerConfig

WORDS = 500


def word(number: int) -> str:
    return f"w{number}"


def word_id(number: int) -> int:
    return number + 3


def make_tokenizer() -> bytes:
    """[CLS] words [SEP], pairs with token types; word i has id i + 3."""
    vocab = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2} | {word(i): word_id(i) for i in range(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    return tokenizer.to_str().encode()


TOKENIZER = make_tokenizer()


def spec_of(name: str, **changes: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "id": name,
        "aliases": (),
        "matryoshka": (),
        "calibration": None,
        "prompts": {},
        "max_tokens": 32,
        "vocab_size": WORDS + 3,
        "tokenizer_sha256": hashlib.sha256(TOKENIZER).hexdigest(),
        "shard_tokens": 64,
        "normalizes": False,
    }
    return make_spec(**(values | changes))


EMBED = spec_of("org/embed-m", aliases=("short",))
SCORE = spec_of("org/rank-m", task="score", dim=1, pooling=None)


def unwritten_usage() -> UsageRecorder:
    """Without a database: it counts."""
    return UsageRecorder(UsageStore(sqlite_url(Path("/nowhere/florilege.db"))))


def make_service(
    gateway: Gateway,
    metrics: Metrics,
    health: Health | None = None,
    limits: LimitStore | None = None,
    usage: UsageRecorder | None = None,
) -> Service:
    usage = usage or unwritten_usage()
    return Service(
        gateway=gateway,
        health=health or Health(),
        metrics=metrics,
        quotas=Quotas(limits or MemoryLimits(usage.used)),
        usage=usage,
        created=1,
    )


class FakeService:
    """A running app. `client` speaks HTTP to it."""

    def __init__(
        self,
        specs: tuple[ModelSpec, ...],
        config: GatewayConfig,
        tracing: Tracing = UNTRACED,
        sides: tuple[JobClient, JobConsumer] | None = None,
    ) -> None:
        """`sides`: of a transport; default one in memory."""
        self.engine = FakeEngine(max_batch_tokens=64)
        self.transport = MemoryTransport()
        self.metrics = Metrics()
        self.health = Health()
        self.authenticator = Authenticator()
        self.thread = EngineThread(watchdog_s=30)
        client, consumer = sides or (self.transport, self.transport)
        worker_config = WorkerConfig(receive_wait_s=0.01, tracing=tracing)
        self.workers = [
            Worker(
                LoadedModel(spec, self.engine, TOKENIZER),
                consumer,
                self.thread,
                worker_config,
                self.metrics,
            )
            for spec in specs
        ]
        self.gateway = Gateway(client, config, self.metrics)
        self.used_tokens: dict[tuple[str, str], int] = {}  # by holder and period, as of SQL
        self.usage = unwritten_usage()
        limits = MemoryLimits(self._used)
        service = make_service(self.gateway, self.metrics, self.health, limits, self.usage)
        self.app = create_app(service, self.authenticator, "0", tracing)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://test"
        )

    async def _used(self, holder: Holder, period: Period) -> int:
        return self.used_tokens.get((holder.name, period), 0)

    async def embed(self, **body: Any) -> httpx.Response:
        return await self.client.post("/v1/embeddings", json={"model": EMBED.id} | body)

    async def rerank(self, **body: Any) -> httpx.Response:
        return await self.client.post("/v1/rerank", json={"model": SCORE.id} | body)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"florilege_{name}", labels)


@asynccontextmanager
async def running_service(
    *specs: ModelSpec, config: GatewayConfig | None = None, **parts: Any
) -> AsyncIterator[FakeService]:
    """`parts`: what else a FakeService takes."""
    service = FakeService(specs or (EMBED, SCORE), config or GatewayConfig(), **parts)
    for worker in service.workers:
        await worker.announce()
    tasks = [asyncio.create_task(worker.run()) for worker in service.workers]
    try:
        yield service
    finally:
        service.engine.gate.set()
        for worker in service.workers:
            worker.drain()
        await asyncio.gather(*tasks)
        service.thread.stop()
        service.gateway.close()
        await service.client.aclose()


def with_limits(**changes: Any) -> GatewayConfig:
    return replace(GatewayConfig(), **changes)
