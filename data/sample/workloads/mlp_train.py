"""Training of a multi-layer perceptron on upsampled digits: an epoch, a validation, a checkpoint a round."""

from __future__ import annotations

import joblib
import numpy as np
from rhythm import arguments, rounds
from sklearn.neural_network import MLPClassifier

PERIOD_S = 1.5


def main() -> None:
    folder, seconds = arguments()
    data = np.load(folder / "digits.npz")
    x, y = data["x"], data["y"]
    split = len(x) * 4 // 5
    order = np.random.default_rng(0)
    model = MLPClassifier((256, 128), batch_size=128, random_state=0)
    for _ in rounds(seconds, PERIOD_S):
        shuffled = order.permutation(split)
        model.partial_fit(x[shuffled], y[shuffled], classes=np.arange(10))
        model.score(x[split:], y[split:])
        joblib.dump(model, folder / "checkpoint.joblib")


if __name__ == "__main__":
    main()
