"""The symbolic view of runs: metric groups, windows, levels and baskets."""
