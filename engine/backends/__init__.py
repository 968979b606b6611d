"""Ragged attention on an accelerator, by whichever library does it best."""
