"""Moving averages of residuals: by hand, and against a sum written out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.residuals import moving_average

NAN = np.nan


class TestMovingAverage:
    @staticmethod
    def windows(run: list[str], host: list[str], window: list[int]) -> pl.DataFrame:
        return pl.DataFrame({"run_key": run, "host": host, "window": window})

    def test_averages_of_a_window_and_those_before_it(self):
        index = self.windows(["r"] * 5, ["h"] * 5, [0, 1, 2, 3, 4])
        z = np.array([[3.0, -3.0], [0.0, NAN], [6.0, 40.0], [0.0, -40.0], [0.0, 0.0]])
        np.testing.assert_allclose(
            moving_average(z, index, 3),
            # what was before the run and what is missing count as no deviation, what is beyond 10 as 10
            [[1.0, -1.0], [1.0, -1.0], [3.0, 7 / 3], [2.0, 0.0], [2.0, 0.0]],
            atol=1e-15,
        )

    def test_what_was_before_a_gap_or_in_another_run_or_host_is_forgotten(self):
        index = self.windows(["r", "r", "r", "r", "s", "s"], ["h", "h", "h", "i", "i", "i"], [0, 1, 3, 4, 5, 6])
        found = moving_average(np.full((6, 1), 4.0), index, 2)
        np.testing.assert_allclose(found.ravel(), [2, 4, 2, 2, 2, 4])

    @pytest.mark.parametrize("span", [1, 2, 5, 10])
    def test_longer_series_against_a_sum_written_out(self, span):
        rng = np.random.default_rng(span)
        z = rng.normal(0, 6, size=(40, 2))
        kept = np.flatnonzero(rng.random(60) < 0.9)[:40]
        index = self.windows(["r"] * 40, ["h"] * 40, kept.tolist())
        at = {window: row for row, window in enumerate(kept)}
        expected = np.zeros_like(z)
        for window, row in at.items():
            for before in range(span):
                if window - before not in at:
                    break
                expected[row] += np.clip(z[at[window - before]], -10, 10) / span
        np.testing.assert_allclose(moving_average(z, index, span), expected, atol=1e-12)

    def test_no_windows(self):
        assert moving_average(np.zeros((0, 3)), self.windows([], [], []), 10).shape == (0, 3)
