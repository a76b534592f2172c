"""What labels say of windows, and which labels cannot be true."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.evaluation.truth import Span, label_faults, window_truth
from infrascope_core.run_files.tables import FAULTS

START = datetime(2026, 11, 1, 10, 0, 0)
SPAN = Span(START, START + timedelta(seconds=59), timedelta(seconds=1))


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def faults(*rows: tuple[float, float, str, list[str]]) -> pl.DataFrame:
    return pl.DataFrame(
        [("run", at(start), at(end), name, "CPU", metrics) for start, end, name, metrics in rows],
        schema=FAULTS.schema,
        orient="row",
    )


def test_a_span_lasts_to_the_end_of_its_last_sample():
    assert SPAN.seconds == 60.0
    assert SPAN.since(pl.Series([at(0), at(1.5)])).tolist() == [0.0, 1.5]


def test_a_window_is_faulty_from_half_on():
    # windows of 4 s every 2 s; the fault lasts from 5 s to 13 s
    truth = window_truth(np.array([0.0, 2.0, 4.0, 8.0, 10.0, 12.0, 14.0]), 4.0, np.array([5.0]), np.array([13.0]))
    assert truth.faulty[:, 0].tolist() == [False, False, True, True, True, False, False]
    # the windows from 2 s and from 12 s hold 1 s of it: neither faulty nor healthy
    assert truth.healthy.tolist() == [True, False, False, False, False, False, True]


def test_a_fault_shorter_than_half_a_window_makes_the_windows_faulty_that_hold_half_of_it():
    truth = window_truth(np.array([0.0, 10.0, 20.0]), 10.0, np.array([9.5]), np.array([11.5]))
    assert truth.faulty[:, 0].tolist() == [False, True, False]
    assert truth.touched[:, 0].tolist() == [True, True, False]


def test_a_run_without_faults_is_healthy_throughout():
    truth = window_truth(np.array([0.0, 1.0]), 3.0, np.array([]), np.array([]))
    assert truth.healthy.tolist() == [True, True]
    assert truth.faulty.shape == (2, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(10, 20, "leak", ["a"]), (30, 40, "leak", [])], None),
        ([(10, 20, "leak", ["a"]), (15, 40, "hog", ["b"])], None),  # two faults at once are injected on purpose
        ([(0, 60, "leak", [])], None),
        (
            [(70, 80, "leak", [])],
            "leak from 2026-11-01 10:01:10 to 2026-11-01 10:01:20 lies outside the run, which lasts from "
            "2026-11-01 10:00:00 to 2026-11-01 10:00:59",
        ),
        (
            [(-5, 10, "leak", [])],
            "leak from 2026-11-01 09:59:55 to 2026-11-01 10:00:10 lies outside the run, which lasts from "
            "2026-11-01 10:00:00 to 2026-11-01 10:00:59",
        ),
        (
            [(10, 50, "leak", []), (12, 14, "leak", []), (60, 60, "hog", [])],
            "leak from 2026-11-01 10:00:12 overlaps an earlier leak; intervals of one fault must be apart",
        ),
        (
            [(10, 20, "leak", ["a", "nosuch", "other"])],
            "the culprit 'nosuch' is no metric of the run (2 of its culprits are unknown)",
        ),
    ],
)
def test_labels_that_cannot_be_true_are_refused_in_one_sentence(rows, message):
    assert label_faults(faults(*rows), SPAN, ["a", "b"]) == message


def test_an_interval_that_begins_within_an_earlier_longer_one_overlaps():
    message = label_faults(faults((0, 50, "leak", []), (5, 6, "leak", []), (40, 45, "leak", [])), SPAN, [])
    assert message == "leak from 2026-11-01 10:00:05 overlaps an earlier leak; intervals of one fault must be apart"
