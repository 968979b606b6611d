"""One file a resource; each handler reads its body itself and returns a raw response."""
