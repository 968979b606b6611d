"""What the engine does on a GPU: `python -m bench gpu`. Needs the engine, torch and numpy alone."""
