"""Hosts of one job against each other: which runs belong together, and which host departs from the others."""
