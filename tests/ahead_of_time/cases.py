"""All kernels of the engine."""

from ahead_of_time.attention import ATTENTION_DISPATCH, ATTENTION_PRODUCT
from ahead_of_time.case import Case
from ahead_of_time.fused import FUSED_DISPATCH, FUSED_PRODUCT

DISPATCH: tuple[Case, ...] = (
    *ATTENTION_DISPATCH,
    *FUSED_DISPATCH,
)  # what serving launches, each once
PRODUCT: tuple[Case, ...] = (*ATTENTION_PRODUCT, *FUSED_PRODUCT)  # every combination
