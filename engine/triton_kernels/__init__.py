"""Kernels of our own, in Triton: the only package, with its backend, that imports it."""
