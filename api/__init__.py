"""HTTP in, HTTP out: parse, authenticate, tokenize, admit, split, merge, encode."""
