"""Which models are served, by whom and how fast: workers say it, gateways keep what they heard."""

import asyncio
import zlib
from collections.abc import Callable, Mapping
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
    until_s: float  # how long its worker is believed to live, by that clock


@dataclass(eq=False)
class _Known:
    spec: ModelSpec
    digest: bytes
    heartbeats: dict[bytes, _Heartbeat] = field(default_factory=dict)  # by worker
    last_ms: int = 0  # when the last of all was
    served_s: float = 0.0  # when we last heard a worker, or that one left, by the loop's clock


class Hearing(NamedTuple):
    """When a gateway can hear workers, and what it makes of it where it could not."""

    takes_heartbeats: Callable[[], bool]  # whether Redis lately took what we write ourselves
    deaf_s: float  # without a refresh for so long, news may have been missed


class Announced:
    """A gateway's side. It remembers what Redis has forgotten, and for as long."""

    def __init__(self, line: Line, hearing: Hearing) -> None:
        self._line = line
        self._hearing = hearing
        self._models: dict[str, _Known] = {}
        self._unreadable: dict[str, bytes] = {}  # models, and the digest that was told of
        self._now_ms, self._heard_s = 0, float("-inf")  # Redis' clock when we last heard, and ours
        self._failed = False  # the last refresh
        self._listens_s = float("-inf")  # the last refresh before which news may have been missed
        self._sure_s = float("-inf")  # who was heard before is in doubt

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
        self._count_silence()
        names = [unquote(name.decode(errors="replace")) for name, _, _ in found]
        for model, (_, digest, heartbeats) in zip(names, found, strict=True):
            await self._hear(model, digest, heartbeats)
        oldest_ms = self._now_ms - KEEP_S * 1000
        for model in self._models.keys() - set(names):  # Redis forgot them
            if self._models[model].last_ms < oldest_ms:
                del self._models[model]
        for model in self._unreadable.keys() - set(names):
            del self._unreadable[model]

    def doubt(self) -> None:
        """Redis was away for long, and may be empty: a worker is sure once it is heard anew."""
        is_deaf = self._is_deaf(asyncio.get_running_loop().time())
        self._sure_s = float("inf") if is_deaf else self._listens_s  # else it was heard since

    def models(self) -> Mapping[str, ServedModel]:
        return {
            name: ServedModel(known.spec, len(self._believed(known)))
            for name, known in self._models.items()
        }

    def is_live(self, model: str) -> bool:
        """Whether to submit jobs: in doubt they wait."""
        known = self._models.get(model)
        return known is not None and bool(self._believed(known))

    def live_workers(self, model: str) -> int:
        """How many surely are: in doubt only those that were heard since."""
        known, now_s = self._models.get(model), asyncio.get_running_loop().time()
        return sum(
            heartbeat.until_s > now_s and heartbeat.heard_s >= self._sure_s
            for heartbeat in (known.heartbeats.values() if known else ())
        )

    def is_deserted(self, model: str) -> bool:
        """Whether nobody has served the model for as long as a worker may be silent.

        While Redis took no heartbeats nobody could be heard, which says nothing of workers. To be
        asked after a refresh.
        """
        known = self._models.get(model)
        if known is None:
            return False
        return self._heard_s - max(known.served_s, self._listens_s) >= DEAD_AFTER_MS / 1000

    def tokens_per_s(self, model: str) -> float | None:
        """Of all live workers that know theirs."""
        known = self._models.get(model)
        believed = self._believed(known) if known else []
        rates = [beat.tokens_per_s for beat in believed if beat.tokens_per_s is not None]
        return sum(rates) if rates else None

    async def tokenizer(self, digest: str) -> bytes:
        """Raises KeyError, and what `Line.execute` raises."""
        deflated = await self._line.execute("GET", tokenizer_key(digest))
        if deflated is None:
            raise KeyError(digest)
        return await asyncio.to_thread(zlib.decompress, deflated)

    def _count_silence(self) -> None:
        """From this refresh on, where anything may have been missed before it."""
        now_s = asyncio.get_running_loop().time()
        if self._is_deaf(now_s):
            self._listens_s = now_s
            for known in self._models.values():
                for worker, heartbeat in known.heartbeats.items():
                    if heartbeat.until_s > self._heard_s:
                        anew = heartbeat._replace(until_s=now_s + DEAD_AFTER_MS / 1000)
                        known.heartbeats[worker] = anew
        self._heard_s, self._failed = now_s, False
        self._sure_s = min(self._sure_s, now_s)

    def _is_deaf(self, now_s: float) -> bool:
        takes = self._hearing.takes_heartbeats()
        return self._failed or not takes or now_s - self._heard_s > self._hearing.deaf_s

    def _believed(self, known: _Known) -> list[_Heartbeat]:
        """Of those that were not silent for too long, as of the last refresh."""
        return [beat for beat in known.heartbeats.values() if beat.until_s > self._heard_s]

    async def _hear(self, model: str, digest: bytes, heartbeats: list[bytes]) -> None:
        known = await self._know(model, digest)
        if known is None:
            return
        before, known.heartbeats = known.heartbeats, {}
        for worker, text in zip(heartbeats[::2], heartbeats[1::2], strict=True):
            try:
                heartbeat = self._read(text)
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

    async def _know(self, model: str, digest: bytes) -> _Known | None:
        """With what was last announced, as far as that can be read: its workers live all the same.

        They may be newer than we are, and do our jobs.
        """
        known = self._models.get(model)
        if known is not None and known.digest == digest:
            return known
        data = await self._line.execute("HGET", model_keys(model).spec, "spec")
        if data is None:
            return known
        try:
            spec = ModelSpec.from_json(data)
        except Exception as error:  # whoever wrote it is no reason to lose the others
            self._tell(model, digest, error)
            return known
        if known is None:
            known = self._models[model] = _Known(spec, digest)
        known.spec, known.digest = spec, digest
        self._unreadable.pop(model, None)
        return known

    def _read(self, text: bytes) -> _Heartbeat:
        """Raises ValueError. One of the future was written before Redis' clock was set back."""
        at_ms, _, rate = text.partition(b" ")
        age_ms = max(0, self._now_ms - int(at_ms))
        until_s = self._heard_s + (DEAD_AFTER_MS - age_ms) / 1000
        return _Heartbeat(int(at_ms), float(rate) if rate else None, self._heard_s, until_s)

    def _tell(self, model: str, digest: bytes, error: Exception) -> None:
        if self._unreadable.get(model) != digest:
            self._unreadable[model] = digest
            get_logger().error("announcement_unreadable", model=model, **place_of(error))


def _name(model: str) -> str:
    return quote(model, safe="/")
