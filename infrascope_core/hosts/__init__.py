"""Hosts of one job against each other: which runs are one job, and which host departs from the others."""
