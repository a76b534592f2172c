"""A data-loading loop: each round reads one Parquet shard from the disk, decodes it, takes SGD steps.

The shard leaves the page cache again after it was read, as in a data set larger than memory.
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.linear_model import SGDClassifier

from benchmarks.recording.workloads.rhythm import arguments, rounds

PERIOD_S = 1.0
PASSES = 3


def read_from_disk(path: Path) -> bytes:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        content = file.read()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return content


def main() -> None:
    folder, seconds = arguments()
    shards = sorted(folder.glob("shard*.parquet"))
    model = SGDClassifier(random_state=0)
    for number in rounds(seconds, PERIOD_S):
        frame = pl.read_parquet(BytesIO(read_from_disk(shards[number % len(shards)])))
        x = frame.drop("y").to_numpy()
        for _ in range(PASSES):
            model.partial_fit(x, frame["y"].to_numpy(), classes=np.array([0, 1]))


if __name__ == "__main__":
    main()
