"""Kernels of our own, in Triton: the only package, with its backend, that imports it."""

import os

# What an x · y + z is rounded to must not depend on the version: Triton 3.10 has another default.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
