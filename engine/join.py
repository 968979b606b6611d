"""Where a branch comes back: it is added to the hidden states, and what follows is normed."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.norm import Norm


@dataclass(frozen=True, eq=False, slots=True)
class JoinNorms:
    """`sum` in a post-norm model, `next` in a pre-norm one, `behind` and `next` in a sandwich."""

    behind: Norm | None = None  # of the branch
    sum: Norm | None = None  # of branch + hidden
    next: Norm | None = None  # of the new hidden states, for the branch that follows


class Join(Protocol):
    @property
    def norms(self) -> JoinNorms: ...

    def __call__(self, branch: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """[T, H] each -> the new hidden states, and what the next branch reads.

        `branch` may be overwritten, `hidden` is not.
        """
        ...


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


@dataclass(frozen=True, eq=False, slots=True)
class Unjoined:
    """What the last layer leaves: a kernel may join, norm and pool at once."""

    branch: Tensor  # [T, H]
    hidden: Tensor  # [T, H]
    join: Join

    def states(self) -> Tensor:
        """The hidden states [T, H] of the model. Once: the branch may be overwritten."""
        return self.join(self.branch, self.hidden)[1]
