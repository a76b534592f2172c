"""Makes the inputs of the workloads in a folder: image and table arrays, a fitted model, Parquet shards."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import joblib
import numpy as np
import polars as pl
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

IMAGES = 60_000
ROWS, COLUMNS, CLASSES = 60_000, 54, 7
SHARDS, SHARD_ROWS, SHARD_COLUMNS = 8, 240_000, 40


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)

    digits = load_digits()
    chosen = random.integers(0, len(digits.data), IMAGES)
    images = np.kron(digits.images[chosen] / 16, np.ones((2, 2))).reshape(IMAGES, -1)
    images += random.normal(0, 0.05, images.shape)
    np.savez(folder / "digits.npz", x=images.astype(np.float32), y=digits.target[chosen])

    x, y = make_classification(ROWS, COLUMNS, n_informative=20, n_classes=CLASSES, random_state=0)
    x = x.astype(np.float32)
    np.savez(folder / "table.npz", x=x, y=y)
    model = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=63, random_state=0).fit(x, y)
    joblib.dump(model, folder / "model.joblib")

    weights = random.normal(size=SHARD_COLUMNS)
    for shard in range(SHARDS):
        values = random.normal(size=(SHARD_ROWS, SHARD_COLUMNS)).astype(np.float32)
        frame = pl.DataFrame(values, schema=[f"x{column}" for column in range(SHARD_COLUMNS)])
        path = folder / f"shard{shard}.parquet"
        frame.with_columns(y=pl.Series((values @ weights > 0).astype(np.int8))).write_parquet(path)
    os.sync()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
