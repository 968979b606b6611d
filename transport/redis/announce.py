"""Which models are served, by whom and how fast: workers say it, gateways keep what they heard."""

import asyncio
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

from checkpoint.spec import ModelSpec
from observability.logs import get_logger, place_of
from transport.protocols import Announcement, ServedModel
from transport.redis.keys import KEEP_S, MODELS, PREFIX, model_keys, tokenizer_key
from transport.redis.line import Line
from transport.redis.scripts import ANNOUNCE, DISCOVER

DEAD_AFTER_MS = 8_000  # four heartbeats missed
FORGET_AFTER_MS = 60_000  # a silent worker's heartbeat


class Announcer:
    """A worker's side."""

    def __init__(self, line: Line, worker: str) -> None:
        self._line = line
        self._worker = worker
        self._digests: dict[str, tuple[ModelSpec, str]] = {}

    async def announce(self, announcement: Announcement) -> None:
        """One round trip, unless Redis does not have the ModelSpec or the tokenizer.

        Raises what `Line.execute` raises.
        """
        spec = announcement.spec
        keys = model_keys(spec.id)
        tokenizer = tokenizer_key(spec.tokenizer_sha256)
        digest = self._digest(spec)
        rate = "" if announcement.tokens_per_s is None else repr(announcement.tokens_per_s)
        spec_is_missing, tokenizer_is_missing = await ANNOUNCE.run(
            self._line,
            (MODELS, keys.spec, tokenizer, keys.heartbeats, *keys.queues, *keys.tokens),
            *(_name(spec.id), self._worker, rate, digest, KEEP_S, FORGET_AFTER_MS),
        )
        if spec_is_missing:
            await self._line.execute("HSET", keys.spec, "spec", spec.to_json(), "digest", digest)
            await self._line.execute("EXPIRE", keys.spec, KEEP_S)
        if tokenizer_is_missing:
            deflated = await asyncio.to_thread(zlib.compress, announcement.tokenizer_json)
            await self._line.execute("SET", tokenizer, deflated, "EX", KEEP_S)

    def _digest(self, spec: ModelSpec) -> str:
        """Of all but `runtime`, in which workers of one model may differ for good."""
        known = self._digests.get(spec.id)
        if known is None or known[0] is not spec:
            digest = sha256(replace(spec, runtime={}).to_json()).hexdigest()
            known = self._digests[spec.id] = (spec, digest)
        return known[1]


class _Heartbeat(NamedTuple):
    at_ms: int  # by Redis' clock
    tokens_per_s: float | None
    heard_s: float  # when we first saw it, by the event loop's clock


@dataclass(eq=False)
class _Known:
    spec: ModelSpec
    digest: bytes
    heartbeats: dict[bytes, _Heartbeat] = field(default_factory=dict)  # by worker
    last_ms: int = 0  # when the last of all was
    served_s: float = 0.0  # when we last heard a worker, or that one left, by the loop's clock


class Announced:
    """A gateway's side. It remembers what Redis has forgotten, and for as long."""

    def __init__(self, line: Line, deaf_s: float) -> None:
        """`deaf_s`: without a refresh for so long, news may have been missed."""
        self._line = line
        self._deaf_s = deaf_s
        self._models: dict[str, _Known] = {}
        self._unreadable: dict[str, bytes] = {}  # models, and the digest that was told of
        self._now_ms, self._heard_s = 0, 0.0  # Redis' clock when we last heard, and ours
        self._failed = False  # the last refresh
        self._listens_s = float("-inf")  # the first refresh since we were deaf
        self._believes_s = float("-inf")  # heartbeats that were heard before count no more
        self._doubts = False  # Redis is back, and nothing was heard since

    async def refresh(self) -> None:
        """Hear what was announced; what cannot be read is told of once, and left out.

        Raises what `Line.execute` raises.
        """
        prefixes = (f"{PREFIX}model:", f"{PREFIX}hb:")
        try:
            self._now_ms, *found = await DISCOVER.run(self._line, (MODELS,), *prefixes)
        except Exception:
            self._failed = True
            raise
        now_s = asyncio.get_running_loop().time()
        if self._is_deaf(now_s):
            self._listens_s = now_s
        if self._doubts:
            self._believes_s = now_s
        self._heard_s, self._failed, self._doubts = now_s, False, False
        names = [unquote(name.decode(errors="replace")) for name, _, _ in found]
        for model, (_, digest, heartbeats) in zip(names, found, strict=True):
            await self._hear(model, digest, heartbeats)
        oldest_ms = self._now_ms - KEEP_S * 1000
        for model in self._models.keys() - set(names):  # Redis forgot them
            if self._models[model].last_ms < oldest_ms:
                del self._models[model]
        for model in self._unreadable.keys() - set(names):
            del self._unreadable[model]

    def believe_no_more(self) -> None:
        """Redis was away for long, and may be empty: a worker lives once it is heard anew."""
        if self._is_deaf(asyncio.get_running_loop().time()):
            self._doubts = True
        else:
            self._believes_s = self._listens_s

    def models(self) -> Mapping[str, ServedModel]:
        return {
            name: ServedModel(known.spec, len(self._live(known)))
            for name, known in self._models.items()
        }

    def is_live(self, model: str) -> bool:
        """Whether to submit jobs: in doubt they wait."""
        known = self._models.get(model)
        return known is not None and bool(self._live(known))

    def live_workers(self, model: str) -> int:
        """How many surely are: none, in doubt."""
        known = self._models.get(model)
        return len(self._live(known)) if known and not self._doubts else 0

    def is_deserted(self, model: str) -> bool:
        """Whether nobody has served the model for as long as a worker may be silent.

        While Redis did not answer nobody could be heard, which says nothing of workers. To be asked
        after a refresh.
        """
        known = self._models.get(model)
        if known is None or self._live(known):
            return False
        silent_s = self._heard_s - max(known.served_s, self._listens_s, self._believes_s)
        return silent_s >= DEAD_AFTER_MS / 1000

    def tokens_per_s(self, model: str) -> float | None:
        """Of all live workers that know theirs."""
        known = self._models.get(model)
        rates = [rate for rate in self._live(known) if rate is not None] if known else []
        return sum(rates) if rates else None

    async def tokenizer(self, digest: str) -> bytes:
        """Raises KeyError, and what `Line.execute` raises."""
        deflated = await self._line.execute("GET", tokenizer_key(digest))
        if deflated is None:
            raise KeyError(digest)
        return await asyncio.to_thread(zlib.decompress, deflated)

    def _is_deaf(self, now_s: float) -> bool:
        return self._failed or now_s - self._heard_s > self._deaf_s

    def _live(self, known: _Known) -> list[float | None]:
        since_s = asyncio.get_running_loop().time() - self._heard_s
        alive_ms = self._now_ms + since_s * 1000 - DEAD_AFTER_MS
        return [
            heartbeat.tokens_per_s
            for heartbeat in known.heartbeats.values()
            if heartbeat.at_ms > alive_ms and heartbeat.heard_s >= self._believes_s
        ]

    async def _hear(self, model: str, digest: bytes, heartbeats: list[bytes]) -> None:
        known = self._models.get(model)
        if known is None or known.digest != digest:
            data = await self._line.execute("HGET", model_keys(model).spec, "spec")
            if data is None:
                return
            try:
                spec = ModelSpec.from_json(data)
            except Exception as error:  # whoever wrote it is no reason to lose the others
                self._tell(model, digest, error)
                return
            known = self._models[model] = _Known(spec, digest)
            self._unreadable.pop(model, None)
        before, known.heartbeats = known.heartbeats, {}
        for worker, text in zip(heartbeats[::2], heartbeats[1::2], strict=True):
            at_ms, _, rate = text.partition(b" ")
            try:
                heartbeat = _Heartbeat(int(at_ms), float(rate) if rate else None, self._heard_s)
            except ValueError as error:
                self._tell(model, digest, error)
                continue
            old = before.get(worker)
            if old is not None and old.at_ms == heartbeat.at_ms:
                heartbeat = old
            known.heartbeats[worker] = heartbeat
            known.last_ms = max(known.last_ms, heartbeat.at_ms)
            known.served_s = max(known.served_s, heartbeat.heard_s)
        if before.keys() - known.heartbeats.keys():  # who leaves in order takes its own away
            known.served_s = self._heard_s

    def _tell(self, model: str, digest: bytes, error: Exception) -> None:
        if self._unreadable.get(model) != digest:
            self._unreadable[model] = digest
            get_logger().error("announcement_unreadable", model=model, **place_of(error))


def _name(model: str) -> str:
    return quote(model, safe="/")
