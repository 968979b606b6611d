"""The engines in process: a file each, run by `worker.py` in the environment of its own."""
