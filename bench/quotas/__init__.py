"""What limits grant when many keys ask for far more, and what they cost."""
