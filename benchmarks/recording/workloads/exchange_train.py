"""Data-parallel training of a linear model: each step computes a gradient and exchanges it with a peer."""

from __future__ import annotations

import socket

import numpy as np

from benchmarks.recording.workloads.peer import ADDRESS, GRADIENT_BYTES, receive_exactly
from benchmarks.recording.workloads.rhythm import arguments, rounds

PERIOD_S = 0.5
BATCH_ROWS = 16_384
CONNECT_S = 10.0


def main() -> None:
    folder, seconds = arguments()
    data = np.load(folder / "table.npz")
    x, y = data["x"], (data["y"] > 2).astype(np.float32)
    random = np.random.default_rng(0)
    weights = np.zeros(x.shape[1], dtype=np.float32)
    sent = np.zeros(GRADIENT_BYTES // 4, dtype=np.float32)
    received = np.zeros_like(sent)
    with socket.create_connection(ADDRESS, CONNECT_S) as peer:
        peer.settimeout(None)
        for _ in rounds(seconds, PERIOD_S):
            rows = random.integers(0, len(x), BATCH_ROWS)
            error = 1 / (1 + np.exp(-(x[rows] @ weights))) - y[rows]
            sent[: len(weights)] = x[rows].T @ error / BATCH_ROWS
            peer.sendall(sent.data.cast("B"))
            if not receive_exactly(peer, received.data.cast("B")):
                raise SystemExit("the peer has closed the connection")
            weights -= 0.1 * (sent[: len(weights)] + received[: len(weights)]) / 2


if __name__ == "__main__":
    main()
