"""The one thread that touches the device, and the watch over it."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from engine.batch import Batch
from engine.errors import DeviceLost
from engine.lazy import LazyTensor, StepOutput
from observability.logs import get_logger, place_of
from worker.turns import Turns

Step = Callable[[Batch], LazyTensor]
IdleWork = Callable[[], bool]  # False: nothing is left to do
Result = TypeVar("Result")


# How long no work has to come until the thread is idle: a client's next request comes sooner.
_IDLE_AFTER_S = 0.02


class EngineDied(Exception):
    """The engine's thread ended, or a step never did. Nothing will be answered any more."""


class EngineThread:
    """Runs the steps of every model of this process, first come first served.

    `died` resolves with the reason when the thread ends (SystemExit inside a step), when the device
    is lost, or when no step has finished for `watchdog_s` although one is due (a step that blocks
    for ever). The thread is a daemon: a blocked step must not hold up the exit of the process.
    """

    def __init__(self, watchdog_s: float, idle_after_s: float = _IDLE_AFTER_S) -> None:
        self.watchdog_s = watchdog_s
        self.turns = Turns()  # of the workers that share this thread
        self._idle_after_s = idle_after_s
        self._idle_work: list[IdleWork] = []
        self._loop = asyncio.get_running_loop()
        self.died: asyncio.Future[str] = self._loop.create_future()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._running: set[asyncio.Future[StepOutput]] = set()
        self._calls: set[asyncio.Future[Any]] = set()
        self._progress_s = 0.0  # when a step last finished, or the first of a busy period came
        self._watched_s = self._loop.time()
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._thread.start()
        self._watch()

    async def run(
        self, step: Step, batch: Batch, after: Callable[[], None] = lambda: None
    ) -> StepOutput:
        """The output of one step; `after` is called on the thread, once the step is followed.

        Raises:
            EngineDied: the thread is gone. Any other exception is the step's own.
        """
        if self.died.done():
            raise EngineDied(self.died.result())
        answer: asyncio.Future[StepOutput] = self._loop.create_future()
        if not self._running:
            self._progress_s = self._loop.time()
        self._running.add(answer)  # until the step has ended, though nobody may wait for it then
        self._work.put(lambda: self._run_step(step, batch, answer, after))
        return await answer

    async def call(self, work: Callable[[], Result]) -> Result:
        """The result of loading a model, or of whatever else computes: on this thread, unwatched.

        A thread that computes has a pool of OpenMP threads of its own. With a second one there are
        more of them than cores, and all wait for each other at every product: 1.6 times slower.

        Raises:
            EngineDied: the thread is gone. Any other exception is the work's own.
        """
        if self.died.done():
            raise EngineDied(self.died.result())
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._calls.add(answer)
        answer.add_done_callback(self._calls.discard)
        self._work.put(lambda: self._run_call(work, answer))
        return await answer

    def when_idle(self, work: IdleWork) -> None:
        """Do pieces of `work` while no step waits, until nothing is left, and again after steps.

        A piece delays a step that comes meanwhile, so it should take milliseconds.
        """
        self._work.put(lambda: self._idle_work.append(work))

    def declare_dead(self, reason: str) -> None:
        """Give up on the engine, once: every step still waiting raises EngineDied."""
        if self.died.done():
            return
        self.died.set_result(reason)
        for answer in (*self._running, *self._calls):
            _fail(answer, EngineDied(reason))
        self._running.clear()

    def stop(self) -> None:
        """End the thread after the steps it has."""
        self._work.put(None)
        if not self.died.done():
            self.died.cancel()

    def _serve(self) -> None:
        reason, idle = "the engine's thread was stopped", False
        try:
            while True:
                try:
                    work = self._work.get(timeout=self._idle_after_s if idle else None)
                except queue.Empty:
                    idle = self._be_idle()
                    continue
                if work is None:
                    break
                work()
                idle = bool(self._idle_work)
        except BaseException as error:  # SystemExit and the like: whatever it was, the thread ends
            reason = f"the engine's thread ended with {type(error).__name__}"
        self._post(self.declare_dead, reason)

    def _be_idle(self) -> bool:
        """Whether there is more to do of it."""
        if self._running:  # what runs behind the step has the device
            return True
        more = False
        for work in list(self._idle_work):
            try:
                more |= work()
            except DeviceLost as error:
                self._lose(error)
            except Exception as error:  # what is only done to be faster must not end what serves
                get_logger().error("idle_work_failed", **place_of(error))
                self._idle_work.remove(work)
        return more

    def _lose(self, error: DeviceLost) -> None:
        self._post(self.declare_dead, f"the device is lost: {error}")

    def _run_step(
        self,
        step: Step,
        batch: Batch,
        answer: asyncio.Future[StepOutput],
        after: Callable[[], None],
    ) -> None:
        try:
            lazy = step(batch)
            lazy.add_done_callback(lambda done: self._resolve(answer, done))
            after()
        except DeviceLost as error:
            self._lose(error)
        except Exception as error:
            self._post(self._end_step, _fail, answer, error)

    def _run_call(self, work: Callable[[], Result], answer: asyncio.Future[Result]) -> None:
        try:
            result = work()
        except Exception as error:
            self._post(_fail, answer, error)
        else:
            self._post(_succeed, answer, result)

    def _resolve(self, answer: asyncio.Future[StepOutput], lazy: LazyTensor) -> None:
        try:
            output = lazy.wait()
        except DeviceLost as error:
            self._lose(error)
        except Exception as error:
            self._post(self._end_step, _fail, answer, error)
        else:
            self._post(self._end_step, _succeed, answer, output)

    def _post(self, callback: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            return

    def _end_step(
        self,
        end: Callable[[asyncio.Future[StepOutput], Any], None],
        answer: asyncio.Future[StepOutput],
        outcome: object,
    ) -> None:
        self._running.discard(answer)
        self._progress_s = self._loop.time()
        end(answer, outcome)

    def _watch(self) -> None:
        if self.died.done():
            return
        now_s, period_s = self._loop.time(), min(1.0, self.watchdog_s / 4)
        overslept_s = now_s - self._watched_s - period_s
        if overslept_s > period_s:
            # The process itself was stopped, and the engine with it: that time does not count.
            self._progress_s += overslept_s
        self._watched_s = now_s
        if self._running and now_s - self._progress_s > self.watchdog_s:
            self.declare_dead(f"no step finished for {self.watchdog_s:g} s")
        self._loop.call_later(period_s, self._watch)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _succeed(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)
