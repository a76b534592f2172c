"""Which runs of a workload a study looks at."""

from __future__ import annotations

import numpy as np
import polars as pl


def chosen_runs(runs: pl.DataFrame, at_most: int, random_state: int) -> list[str]:
    """At most so many run keys, a seeded choice."""
    keys = np.array(runs["run_key"].sort())
    if len(keys) > at_most:
        keys = np.sort(np.random.default_rng(random_state).choice(keys, at_most, replace=False))
    return [str(key) for key in keys]
