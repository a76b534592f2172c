"""Training of gradient-boosted trees on a table, a bootstrap sample a round."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.recording.workloads.rhythm import arguments, rounds

PERIOD_S = 1.5
SAMPLE_ROWS = 20_000


def main() -> None:
    folder, seconds = arguments()
    data = np.load(folder / "table.npz")
    x, y = data["x"], data["y"]
    random = np.random.default_rng(0)
    for number in rounds(seconds, PERIOD_S):
        chosen = random.integers(0, len(x), SAMPLE_ROWS)
        HistGradientBoostingClassifier(max_iter=14, max_leaf_nodes=31, random_state=number).fit(x[chosen], y[chosen])


if __name__ == "__main__":
    main()
