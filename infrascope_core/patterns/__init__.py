"""Patterns over baskets: frequent itemsets and association rules."""
