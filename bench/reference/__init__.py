"""Vectors that a server is held to, and the script that makes them."""
