"""Ourselves beside other embedding libraries and servers, on the same weights and texts."""
