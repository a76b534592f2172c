"""Scores against labels: how well windows, episodes and culprits are found, beside peers (docs/adr/0015)."""
