"""Training of a multi-layer perceptron on upsampled digits: an epoch, a validation, a checkpoint a round."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import joblib
import numpy as np
from sklearn.neural_network import MLPClassifier

from benchmarks.recording.workloads.rhythm import arguments, rounds

PERIOD_S = 1.5


def save(model: MLPClassifier, path: Path) -> None:
    """Write the model beside `path`, onto the disk, and put it in its place."""
    fresh = path.with_suffix(".fresh")
    with fresh.open("wb") as file:
        joblib.dump(model, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def main() -> None:
    folder, seconds = arguments()
    data = np.load(folder / "digits.npz")
    x, y = data["x"], data["y"]
    split = len(x) * 4 // 5
    order = np.random.default_rng(0)
    checkpoints = folder / "disk" if (folder / "disk").is_dir() else folder
    model = MLPClassifier((256, 128), batch_size=128, random_state=0)
    for _ in rounds(seconds, PERIOD_S):
        shuffled = order.permutation(split)
        model.partial_fit(x[shuffled], y[shuffled], classes=np.arange(10))
        model.score(x[split:], y[split:])
        with contextlib.suppress(OSError):  # a full disk costs the checkpoint, not the training
            save(model, checkpoints / "checkpoint.joblib")


if __name__ == "__main__":
    main()
