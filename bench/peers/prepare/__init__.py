"""What the peers read: the same weights in the form that each of them takes."""
