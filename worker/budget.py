"""How many tokens a batch may hold: fewer after memory ran out, and step by step as many again."""

LEAST_TOKENS = 512  # one text, for most models: less memory than that serves nobody
_FULL_BATCHES = 256  # at least half full, and without a fault, until the budget is doubled


class BatchBudget:
    """Whoever else uses the device's memory may be gone again, and may not."""

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = self.tokens = most_tokens
        self._full_batches = 0

    def ran_out(self) -> bool:
        """Memory was too small for a batch. Whether that changes the budget."""
        before, self._full_batches = self.tokens, 0
        self.tokens = min(self.tokens, max(LEAST_TOKENS, self.tokens // 2))
        return self.tokens != before

    def ran(self, tokens: int) -> bool:
        """A batch of so many ran in one step. Whether that changes the budget."""
        if self.tokens == self._most_tokens or 2 * tokens < self.tokens:
            return False
        self._full_batches += 1
        if self._full_batches < _FULL_BATCHES:
            return False
        self._full_batches = 0
        self.tokens = min(self._most_tokens, 2 * self.tokens)
        return True
