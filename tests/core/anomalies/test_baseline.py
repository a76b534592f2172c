"""Baselines: their names in words, and the ranges that they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infrascope_core.anomalies.baseline import ANY, Identity


class TestIdentity:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({}, "4 runs of train W"),
            ({"runs": 1}, "1 run of train W"),
            ({"compared_with": "reference"}, "4 runs known to be healthy of train W"),
            ({"compared_with": "reference", "runs": 1}, "1 run known to be healthy of train W"),
            ({"phase": ANY, "workload": ANY}, "4 runs of all workloads on cpu"),
            ({"phase": ANY}, "4 runs of any W"),
            ({"compared_with": "past", "runs": 1}, "the run's own past"),
        ],
    )
    def test_it_describes_what_a_window_was_compared_with(self, changes, words):
        assert str(replace(Identity("cpu", "train", "W", "workload", 90, 4, "v"), **changes)) == words
