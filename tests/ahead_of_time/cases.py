"""All kernels of the engine."""

from ahead_of_time.case import Case

DISPATCH: tuple[Case, ...] = ()  # what serving launches, each once
PRODUCT: tuple[Case, ...] = (*DISPATCH,)  # every combination
