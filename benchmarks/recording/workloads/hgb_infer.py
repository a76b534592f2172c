"""Batch inference with gradient-boosted trees: a request of several batches every second."""

from __future__ import annotations

import joblib
import numpy as np

from benchmarks.recording.workloads.rhythm import arguments, rounds

PERIOD_S = 1.0
BATCHES, BATCH_ROWS = 6, 4096


def main() -> None:
    folder, seconds = arguments()
    x = np.load(folder / "table.npz")["x"]
    model = joblib.load(folder / "model.joblib")
    random = np.random.default_rng(0)
    for _ in rounds(seconds, PERIOD_S):
        for _ in range(BATCHES):
            model.predict_proba(x[random.integers(0, len(x), BATCH_ROWS)])


if __name__ == "__main__":
    main()
