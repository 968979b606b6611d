"""How fast the device is when it is kept busy: what admission divides the backlog by."""

from collections import deque


class Throughput:
    """Tokens per device-busy second over recent batches at least half full.

    Smaller ones say nothing of capacity.
    """

    def __init__(self, max_batch_tokens: int, window: int = 32) -> None:
        self._least_tokens = max_batch_tokens / 2
        self._batches: deque[tuple[int, float]] = deque(maxlen=window)

    def resize(self, max_batch_tokens: int) -> None:
        """Batches of another size from now on. What was measured still says something."""
        self._least_tokens = max_batch_tokens / 2

    def add(self, tokens: int, busy_s: float) -> bool:
        """Take a batch into account. True: it is the first that says anything."""
        if tokens < self._least_tokens or busy_s <= 0:
            return False
        self._batches.append((tokens, busy_s))
        return len(self._batches) == 1

    @property
    def tokens_per_s(self) -> float | None:
        """None until a batch at least half full has run."""
        if not self._batches:
            return None
        return sum(t for t, _ in self._batches) / sum(s for _, s in self._batches)
