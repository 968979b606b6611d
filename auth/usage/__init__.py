"""What was used: counted in memory as requests are answered, written to SQL every few seconds."""
