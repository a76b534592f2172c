"""Did the change help? Runs before it and runs after it (Reveal, section 6)."""
