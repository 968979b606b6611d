"""What the engine runs in one step: the tokens of all sequences, one after another."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["embed", "score", "tokens", "sparse"]


@dataclass(frozen=True, eq=False)
class Batch:
    """A packed batch. No sequence is empty: lengths are all at least 1 and sum to T."""

    kind: Kind
    input_ids: NDArray[np.int32]  # [T]
    lengths: NDArray[np.int32]  # [B]
    type_ids: NDArray[np.uint8] | None = None  # [T]; None: all zero
    # [S, 3]: sequence, start, end (exclusive), sorted by sequence, at least one of each. With them
    # `embed` pools each span to a row of its own; None: the whole sequence is one.
    spans: NDArray[np.int32] | None = None

    @property
    def tokens(self) -> int:
        return int(self.input_ids.size)

    @property
    def sequences(self) -> int:
        return int(self.lengths.size)
