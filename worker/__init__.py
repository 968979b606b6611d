"""Takes jobs, forms batches, feeds the engine, completes jobs."""
