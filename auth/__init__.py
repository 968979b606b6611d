"""Who may call, and how much: keys, the store that keeps them, and the check of a presented key."""
