"""Where a branch comes back: it is added to the hidden states, and what follows is normed."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from engine.norm import Norm

# branch [T, H], hidden [T, H] -> the hidden states after it, and what the next branch reads
Join = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False, slots=True)
class JoinNorms:
    """`sum` in a post-norm model, `next` in a pre-norm one, `behind` and `next` in a sandwich."""

    behind: Norm | None = None  # of the branch
    sum: Norm | None = None  # of branch + hidden
    next: Norm | None = None  # of the new hidden states, for the branch that follows


@dataclass(frozen=True, eq=False, slots=True)
class PlainJoin:
    """The reference: what torch's public functions compute."""

    norms: JoinNorms

    def __call__(self, branch: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        norms = self.norms
        if norms.behind is not None:
            branch = norms.behind(branch)
        hidden = branch.add_(hidden)
        if norms.sum is not None:
            hidden = norms.sum(hidden)
        return hidden, hidden if norms.next is None else norms.next(hidden)
