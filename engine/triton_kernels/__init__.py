"""Kernels of our own, in Triton: the only package, with its backend, that imports it.

Each launch says `enable_fp_fusion`: what x · y + z is rounded to must not depend on the version,
and Triton 3.10 has another default.
"""
