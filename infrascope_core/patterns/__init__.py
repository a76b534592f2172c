"""Patterns in symbolic baskets: which states of the hardware occur together, and which follow from which."""
