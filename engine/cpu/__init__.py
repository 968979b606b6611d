"""Layers in C++, for processors with AVX-512: compiled at install, called through ctypes."""
