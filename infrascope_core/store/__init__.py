"""Where products rest, what a product is, and when one is current.

What belongs here: files, locks, fingerprints and the graph of declarations. Nothing here depends on a metric.
"""
