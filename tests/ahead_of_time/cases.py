"""All kernels of the engine."""

from ahead_of_time.case import Case
from ahead_of_time.fused import FUSED_DISPATCH, FUSED_PRODUCT

DISPATCH: tuple[Case, ...] = (*FUSED_DISPATCH,)  # what serving launches, each once
PRODUCT: tuple[Case, ...] = (*FUSED_PRODUCT,)  # every combination
