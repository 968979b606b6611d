"""Load against a server's URL, and the same load on other embedding libraries."""
