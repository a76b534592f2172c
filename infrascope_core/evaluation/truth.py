"""Labels of a run: whether they can be true, and which of its windows they make faulty.

What belongs here: from a run's `faults` to sentences about what is wrong with them, and to a state per window.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from infrascope_core.evaluation.metrics import overlap
from infrascope_core.numeric import Array, Mask

_HALF = 0.5 - 1e-9
"""Half, less what rounding of times may take."""


@dataclass(frozen=True)
class Span:
    """The time a run covers.

    Attributes
    ----------
    start, end : datetime
        Of the first and the last sample.
    interval : timedelta
        From one sample to the next.
    """

    start: datetime
    end: datetime
    interval: timedelta

    @property
    def seconds(self) -> float:
        """From the first sample to the end of the last."""
        return (self.end - self.start + self.interval).total_seconds()

    def since(self, times: pl.Series) -> Array:
        """Seconds from the first sample to each of the times."""
        return (times - self.start).dt.total_microseconds().to_numpy() / 1e6


def label_faults(faults: pl.DataFrame, span: Span, metrics: Collection[str]) -> str | None:
    """What is wrong with a run's labels, in one sentence, or None.

    Parameters
    ----------
    faults : polars.DataFrame
        Table `faults` of the run.
    span : Span
        The time that the run covers.
    metrics : collection of str
        Host-free metrics of the run.

    Notes
    -----
    A fault must lie within the run. Two intervals of one fault must not overlap; those of different faults may,
    because faults are injected together. A culprit must be a metric of the run.
    """
    rows = faults.sort("start", "end", "fault")
    for fault, start, end in rows.select("fault", "start", "end").iter_rows():
        if start < span.start or end > span.end + span.interval:
            return f"{fault} from {start} to {end} lies outside the run, which lasts from {span.start} to {span.end}"
    for (fault,), same in rows.partition_by("fault", as_dict=True, maintain_order=True).items():
        early = same.filter(pl.col("start") <= pl.col("end").shift().cum_max())
        if early.height:
            start = early["start"][0]
            return f"{fault} from {start} overlaps an earlier {fault}; intervals of one fault must be apart"
    unknown = rows["metrics"].explode().drop_nulls().unique(maintain_order=True)
    unknown = unknown.filter(~unknown.is_in(list(metrics)))
    if len(unknown):
        return f"the culprit {unknown[0]!r} is no metric of the run ({len(unknown)} of its culprits are unknown)"
    return None


@dataclass(frozen=True, eq=False)
class WindowTruth:
    """What is faulty, by the labels.

    Attributes
    ----------
    faulty : ndarray of bool, windows x faults
        At least half of the window lies in the fault, or at least half of the fault in the window.
    touched : ndarray of bool, windows x faults
        Window and fault share a moment. Windows that are touched by less than half are neither faulty nor healthy:
        to call them either would measure where a label was cut.
    """

    faulty: Mask
    touched: Mask

    @property
    def healthy(self) -> Mask:
        """Windows that no fault touches."""
        return np.asarray(~self.touched.any(axis=1))


def window_truth(window_start: Array, length: float, fault_start: Array, fault_end: Array) -> WindowTruth:
    """Say which windows are faulty, and by which fault.

    Parameters
    ----------
    window_start : ndarray, windows
        Seconds.
    length : float
        Of a window, in seconds.
    fault_start, fault_end : ndarray, faults
        Seconds; `fault_end` is where the last faulty sample ends.
    """
    shared = overlap(window_start, window_start + length, fault_start, fault_end)
    lasting = np.minimum(length, fault_end - fault_start)
    touched: Mask = shared > 0
    return WindowTruth(touched & (shared >= _HALF * lasting), touched)
