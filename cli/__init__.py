"""Settings (the only reader of the environment), wiring (the only builder), commands."""
