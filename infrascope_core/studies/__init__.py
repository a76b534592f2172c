"""The paper's own evaluations of its method: window lengths, likeness of runs, and what a window costs."""
