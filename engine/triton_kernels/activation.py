"""Activation functions within kernels, by the names that checkpoints give them."""

import triton
import triton.language as tl


@triton.jit
def activated(x, ACT: tl.constexpr):
    """Float32 in, float32 out; of the same names as engine.activation, and None: the identity."""
    if ACT == "gelu":
        x = 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476))  # 1 / √2
    elif ACT == "gelu_new" or ACT == "gelu_pytorch_tanh":
        # (1 + tanh(u)) / 2 = σ(2 · u), with u = √(2 / π) · (x + 0.044715 · x³).
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACT == "silu":
        x = x * tl.sigmoid(x)
    elif ACT == "relu":
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    else:
        tl.static_assert(ACT is None, "no such activation")
    return x
