"""Metrics: what is known of each, which are trusted, and how each is to be taken."""
