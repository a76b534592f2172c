"""Pages that a person looks at: every run as one file for the browser, and the fleet as their index."""
