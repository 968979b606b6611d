"""How much a caller may ask for: what is counted, where, and what happens when Redis is away."""
