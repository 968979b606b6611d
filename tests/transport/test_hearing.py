"""What a gateway makes of heartbeats, and of silence: by its own clock, and Redis', set by hand."""

import asyncio
from typing import Any

import pytest
from hand_clock import HandClock
from transport_jobs import MODEL, make_spec

from transport.redis.announce import Announced, Hearing
from transport.redis.errors import Unreachable

DEAF_S, HEALTHY_S, DEAD_S = 2.5, 5.0, 8.0


class Announcing:
    """A Redis in which workers announce the model, and the gateway that hears them."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.skew_s = 1e9  # of Redis' clock
        self.answers = self.takes_heartbeats = True
        self.is_empty = False
        self.spec, self.digest = make_spec().to_json(), b"d"
        self.heartbeats: dict[bytes, bytes] = {}
        self._healthy_s = clock.now  # when Redis last took and answered everything
        line: Any = self
        self.gateway = Announced(line, Hearing(lambda: self.takes_heartbeats, DEAF_S))

    @property
    def redis_ms(self) -> int:
        return int((self.clock.now + self.skew_s) * 1000)

    async def execute(self, command: str, *arguments: Any, op: str = "") -> Any:
        if not self.answers:
            raise Unreachable("away")
        if command == "HGET":
            return self.spec
        assert command == "EVALSHA_RO"
        if self.is_empty:
            return [self.redis_ms]
        words = [word for pair in self.heartbeats.items() for word in pair]
        return [self.redis_ms, [MODEL.encode(), self.digest, words]]

    def heartbeat(self, worker: bytes = b"w1") -> None:
        if self.answers and self.takes_heartbeats:
            self.heartbeats[worker] = b"%d 100.0" % self.redis_ms

    async def live(self, seconds: float, *workers: bytes) -> None:
        """As time passes, one second after the other; workers are heard each time."""
        for _ in range(int(seconds)):
            self.clock.now += 1
            for worker in workers:
                self.heartbeat(worker)
            if self.answers and self.takes_heartbeats:
                if self.clock.now - self._healthy_s > HEALTHY_S:
                    self.gateway.doubt()
                self._healthy_s = self.clock.now
            if self.answers:
                await self.gateway.refresh()
            else:
                with pytest.raises(Unreachable):
                    await self.gateway.refresh()

    @property
    def believed(self) -> int:
        assert self.gateway.is_live(MODEL) == bool(self.gateway.models()[MODEL].live_workers)
        return self.gateway.models()[MODEL].live_workers

    @property
    def sure(self) -> int:
        return self.gateway.live_workers(MODEL)

    @property
    def deserted(self) -> bool:
        return self.gateway.is_deserted(MODEL)


@pytest.fixture
async def heard(monkeypatch: pytest.MonkeyPatch) -> Announcing:
    """After a minute with one worker."""
    clock = HandClock(1_000.0)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock)
    announcing = Announcing(clock)
    await announcing.live(60, b"w1")
    assert (announcing.believed, announcing.sure, announcing.deserted) == (1, 1, False)
    return announcing


async def test_silent_worker_is_dead_after_its_time_and_its_model_deserted(
    heard: Announcing,
) -> None:
    await heard.live(DEAD_S - 1)
    assert (heard.believed, heard.sure, heard.deserted) == (1, 1, False)
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (0, 0, True)
    assert heard.gateway.tokens_per_s(MODEL) is None


async def test_model_is_deserted_a_while_after_its_last_worker_left(heard: Announcing) -> None:
    heard.heartbeats.clear()
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (0, 0, False)
    await heard.live(DEAD_S - 1)
    assert not heard.deserted
    await heard.live(1)
    assert heard.deserted


async def test_worker_that_left_long_ago_is_no_word_of_the_last_one(heard: Announcing) -> None:
    await heard.live(3, b"w1", b"w2")
    del heard.heartbeats[b"w2"]
    await heard.live(20, b"w1")
    assert (heard.believed, heard.deserted) == (1, False)
    heard.heartbeats.clear()
    await heard.live(DEAD_S - 1)
    assert not heard.deserted


async def test_worker_that_was_dead_before_we_came_is_not_believed(heard: Announcing) -> None:
    heard.heartbeats[b"w0"] = b"%d 5.0" % (heard.redis_ms - 8_000)
    heard.heartbeats[b"w9"] = b"%d 5.0" % (heard.redis_ms - 4_000)
    await heard.live(1, b"w1")
    assert (heard.believed, heard.sure) == (2, 2)
    assert heard.gateway.tokens_per_s(MODEL) == 105.0
    await heard.live(3, b"w1")
    assert (heard.believed, heard.sure) == (1, 1)


@pytest.mark.parametrize("what", ["answers", "takes_heartbeats"])
async def test_absence_of_redis_counts_as_nobodys_silence(heard: Announcing, what: str) -> None:
    setattr(heard, what, False)
    await heard.live(60, b"w1")
    assert (heard.believed, heard.deserted) == (1, False)
    setattr(heard, what, True)
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (1, 0, False)
    await heard.live(1, b"w1")
    assert (heard.believed, heard.sure, heard.deserted) == (1, 1, False)


async def test_redis_that_answers_now_and_then_is_no_word_of_its_workers(
    heard: Announcing,
) -> None:
    for _ in range(10):
        heard.answers = not heard.answers
        await heard.live(1)
        assert (heard.believed, heard.deserted) == (1, False)


@pytest.mark.parametrize("what", ["answers", "takes_heartbeats"])
async def test_silence_counts_again_after_an_absence(heard: Announcing, what: str) -> None:
    setattr(heard, what, False)
    await heard.live(60)
    setattr(heard, what, True)
    await heard.live(DEAD_S - 1)
    assert (heard.believed, heard.sure, heard.deserted) == (1, 0, False)
    await heard.live(2)
    assert (heard.believed, heard.sure, heard.deserted) == (0, 0, True)


async def test_jobs_wait_after_an_absence_for_the_next_of_a_worker_that_left(
    heard: Announcing,
) -> None:
    heard.heartbeats.clear()
    await heard.live(4)
    heard.answers = False
    await heard.live(60)
    heard.answers = True
    await heard.live(DEAD_S)
    assert (heard.believed, heard.deserted) == (0, False)
    await heard.live(1)
    assert heard.deserted


async def test_worker_that_was_dead_before_an_absence_is_dead_after_it(heard: Announcing) -> None:
    await heard.live(DEAD_S)
    heard.answers = False
    await heard.live(20)
    heard.answers = True
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (0, 0, False)


async def test_gateway_that_was_stopped_doubts_and_believes_as_after_an_absence(
    heard: Announcing,
) -> None:
    heard.clock.now += 60
    assert (heard.believed, heard.sure) == (1, 0)
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (1, 0, False)
    await heard.live(DEAD_S)
    assert heard.deserted


@pytest.mark.parametrize("what", ["answers", "takes_heartbeats"])
async def test_short_absence_leaves_a_worker_that_is_heard_again_live(
    heard: Announcing, what: str
) -> None:
    setattr(heard, what, False)
    await heard.live(4)
    assert (heard.believed, heard.sure) == (1, 1)
    setattr(heard, what, True)
    await heard.live(1)
    assert (heard.believed, heard.sure) == (1, 1)
    await heard.live(1, b"w1")
    assert (heard.believed, heard.sure, heard.deserted) == (1, 1, False)


async def test_worker_is_believed_though_redis_came_back_empty(heard: Announcing) -> None:
    heard.answers = False
    await heard.live(20)
    heard.answers, heard.is_empty = True, True
    await heard.live(2)
    assert (heard.believed, heard.sure, heard.deserted) == (1, 0, False)


@pytest.mark.parametrize("spec", [b"[]", b'{"id": 5}', None])
async def test_workers_are_heard_behind_an_announcement_that_we_cannot_read(
    heard: Announcing, spec: bytes | None
) -> None:
    heard.spec, heard.digest = spec, b"newer"  # type: ignore[assignment]
    await heard.live(20, b"w1", b"w2")
    assert (heard.believed, heard.sure, heard.deserted) == (2, 2, False)
    assert heard.gateway.models()[MODEL].spec == make_spec()
    heard.spec = make_spec(max_tokens=7).to_json()
    await heard.live(1)
    assert heard.gateway.models()[MODEL].spec.max_tokens == 7
    await heard.live(DEAD_S)
    assert heard.deserted


@pytest.mark.parametrize("step_s", [-3_600.0, -3.0, 3_600.0])
async def test_step_of_redis_clock_neither_kills_a_worker_nor_keeps_a_dead_one(
    heard: Announcing, step_s: float
) -> None:
    heard.skew_s += step_s
    await heard.live(DEAD_S - 1)
    assert (heard.believed, heard.sure, heard.deserted) == (1, 1, False)
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (0, 0, True)
    heard.skew_s += step_s
    await heard.live(3, b"w1")
    assert (heard.believed, heard.sure, heard.deserted) == (1, 1, False)


async def test_heartbeat_of_the_future_is_one_of_now(heard: Announcing) -> None:
    """It was written before Redis' clock was set back, and is heard afterwards."""
    heard.heartbeats[b"w1"] = b"%d 100.0" % (heard.redis_ms + 3_600_000)
    await heard.live(DEAD_S)
    assert (heard.believed, heard.deserted) == (1, False)
    await heard.live(1)
    assert (heard.believed, heard.sure, heard.deserted) == (0, 0, True)


async def test_worker_is_believed_though_another_changed_the_announcement(
    heard: Announcing,
) -> None:
    heard.answers = False
    await heard.live(20)
    heard.answers, heard.spec, heard.digest = True, make_spec(max_tokens=7).to_json(), b"e"
    await heard.live(1, b"w2")
    assert heard.gateway.models()[MODEL].spec.max_tokens == 7
    assert (heard.believed, heard.sure) == (2, 1)


async def test_worker_that_was_heard_since_redis_came_back_is_not_doubted(
    heard: Announcing,
) -> None:
    """Whoever read the answers may have been away for longer than Redis."""
    heard.gateway.doubt()
    assert heard.sure == 1
    heard.answers = False
    await heard.live(1)
    heard.gateway.doubt()
    assert heard.sure == 0
    heard.answers = True
    await heard.live(1, b"w1")
    heard.gateway.doubt()
    assert heard.sure == 1


async def test_models_differ_in_who_serves_them(heard: Announcing) -> None:
    assert not heard.gateway.is_deserted("none")
    assert not heard.gateway.is_live("none")
    assert heard.gateway.live_workers("none") == 0
