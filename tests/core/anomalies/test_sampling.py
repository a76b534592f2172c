"""Which windows of many a baseline is fitted on."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.anomalies.sampling import sample_windows
from infrascope_core.anomalies.settings import DetectorSettings
from tests.core.anomalies.generated import fitted, runs


class TestSample:
    @staticmethod
    def keys(*heights: int) -> pl.DataFrame:
        return pl.concat(
            pl.DataFrame({"run_key": f"r{i:03}", "host": "h", "window": np.arange(n)}) for i, n in enumerate(heights)
        )

    def test_whole_runs_if_they_fit(self):
        keys = self.keys(70, 50)
        chosen = sample_windows(pl.concat([keys, keys]), DetectorSettings(max_windows=120))
        assert chosen.equals(keys)

    def test_else_stretches_of_sixty_from_all_runs_which_begin_at_other_places(self):
        chosen = sample_windows(self.keys(*[1000] * 5), DetectorSettings(max_windows=700))
        begins = []
        for _, run in chosen.group_by("run_key", maintain_order=True):
            windows = run["window"].to_numpy()
            assert len(windows) == 120
            for stretch in windows.reshape(2, 60):
                assert np.diff(stretch).tolist() == [1] * 59
            assert windows[60] >= windows[59] + 1
            begins.append(int(windows[0]))
        assert len(set(begins)) == 5

    def test_of_more_runs_than_there_is_room_for_a_seeded_choice(self):
        keys = self.keys(*[100] * 30)
        chosen = sample_windows(keys, DetectorSettings(max_windows=300))
        assert chosen["run_key"].n_unique() == 5
        assert chosen.height == 300
        assert chosen.equals(sample_windows(keys, DetectorSettings(max_windows=300)))
        other = sample_windows(keys, DetectorSettings(max_windows=300, random_state=1))
        assert set(other["run_key"]) != set(chosen["run_key"])

    @given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(60, 900))
    def test_never_more_than_there_is_room_for_nor_a_window_twice(self, heights, most):
        settings = DetectorSettings(max_windows=most)
        keys = self.keys(*heights)
        chosen = sample_windows(keys.sample(fraction=1, shuffle=True, seed=0), settings)
        assert 0 < chosen.height <= most
        assert chosen.unique().height == chosen.height
        assert chosen.join(keys, on=["run_key", "host", "window"], how="anti").is_empty()
        assert chosen.equals(sample_windows(keys, settings))
        assert chosen.equals(sample_windows(chosen, settings))  # who samples ahead fits on the same

    def test_who_reads_the_chosen_windows_only_has_the_same_baseline(self):
        settings = DetectorSettings(trees=5, max_windows=60)
        table = runs(2, windows=90)
        keys = sample_windows(table, settings)
        ahead = table.join(keys, on=["run_key", "host", "window"], how="semi")
        assert fitted(ahead, settings).identity == fitted(table, settings).identity
        assert fitted(table, settings).identity.windows == 60
