"""The engine's kernels for a CPU, side by side in one process."""
