"""What a model's own files say: where they are, what they mean, and how text becomes token ids.

Imports nothing, so that the engine can import `checkpoint.spec` on a host without tokenizers.
"""
