"""What turns hidden states into answers: one head for each kind that a model serves."""
