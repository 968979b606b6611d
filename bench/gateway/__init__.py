"""Where a request's time goes, from the client's socket to the engine and back."""
