"""What metrics, logs and traces that are off cost a request."""
