"""Tokenizer libraries side by side: the same ids first, then CPU time."""
