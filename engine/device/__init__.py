"""Accelerators: memory, queues and graphs."""
