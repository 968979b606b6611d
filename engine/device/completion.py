"""Steps that run on, and the thread that learns of their end."""

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread

from engine.device.device import Event
from engine.device.memory import translated
from engine.lazy import LazyTensor, StepOutput

logger = logging.getLogger(__name__)

Finish = Callable[[], StepOutput]  # copies the rows out of the host's memory


class DeviceTensor:
    """A LazyTensor that the completion thread resolves."""

    __slots__ = ("_callbacks", "_done", "_error", "_lock", "_output")

    def __init__(self) -> None:
        self._done, self._lock = Flag(), Lock()
        self._callbacks: list[Callable[[LazyTensor], None]] = []
        self._output: StepOutput | None = None
        self._error: Exception | None = None

    def ready(self) -> bool:
        return self._done.is_set()

    def wait(self) -> StepOutput:
        self._done.wait()
        if self._error is not None:
            raise self._error
        if self._output is None:
            raise RuntimeError("a step is done without rows")
        return self._output

    def add_done_callback(self, callback: Callable[[LazyTensor], None]) -> None:
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def resolve(self, output: StepOutput) -> None:
        self._output = output
        self._call_back()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._call_back()

    def _call_back(self) -> None:
        with self._lock:
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                logger.exception("a callback of a step raised")  # the next steps still end


class Completion:
    """One thread that waits for the device, step by step in the order they were enqueued."""

    def __init__(self, name: str = "completion") -> None:
        self._steps: SimpleQueue[tuple[Event, Finish, DeviceTensor] | None] = SimpleQueue()
        self._thread = Thread(target=self._complete, name=name, daemon=True)
        self._thread.start()

    def follow(self, event: Event, finish: Finish) -> DeviceTensor:
        """Once the device has come by `event`, call `finish`; the tensor resolves with its output.

        What either raises becomes the tensor's error: OutOfMemory or DeviceLost where it is one.
        """
        tensor = DeviceTensor()
        self._steps.put((event, finish, tensor))
        return tensor

    def stop(self) -> None:
        """Complete what was enqueued, and end the thread."""
        self._steps.put(None)
        self._thread.join()

    def _complete(self) -> None:
        while (step := self._steps.get()) is not None:
            event, finish, tensor = step
            try:
                event.synchronize()
                output = finish()
            except Exception as error:
                tensor.fail(translated(error))
            else:
                tensor.resolve(output)
            # Nothing of a step is kept alive until the next one comes.
            del step, event, finish, tensor
