"""Run files and label files from a job: simulate every host, format, write aside, rename.

What belongs here: times, text and files. Formatting numbers is what a simulation costs; so columns that never move are
rendered once and in one piece, counts go out as integers, and the rest as the shortest decimal of their rounded value.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from infrascope_core.run_file.columns import column_name
from infrascope_core.run_file.labels import labels_path
from infrascope_core.simulate.activity import activity, clock_cut, delay
from infrascope_core.simulate.columns import Column, columns
from infrascope_core.simulate.disturbance import Label, Signal, disturb, labels
from infrascope_core.simulate.host import host_state, phase_load
from infrascope_core.simulate.instruments import Readings, read
from infrascope_core.simulate.plan import Draws, Job
from infrascope_core.simulate.workloads import profile

_RUN_SPREAD = 0.02
"""Runs of one workload differ by about this much in every number of their profile (Reveal, section 5.4)."""
_LATE_SHARE = 0.004
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S%.3f"


def write_job(job: Job, out_dir: Path) -> list[Path]:
    """Simulate a job and write its run files, each with `<stem>.faults.csv` beside it.

    LLM runs lie below `train_separated` or `infer_separated`, as in the public data set. A host without a fault gets
    labels without rows: known to be healthy. The same job gives the same bytes.

    Returns
    -------
    list of Path
        The run files, by host.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    times, hosts = simulate_job(job)
    names = job.run_names()
    groups = [list(range(job.hosts))] if job.one_file else [[host] for host in range(job.hosts)]
    paths = []
    for name, group in zip(names, groups, strict=True):
        path = out_dir / job.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        stamps = _stamps(job, name.started_at, times)
        told = [label for host in group for label in labels(job, host, times)]
        _replace(labels_path(path), _label_text(told, stamps))
        _replace(path, run_text(job, stamps, {job.host_names()[host]: hosts[host] for host in group}))
        paths.append(path)
    return paths


def simulate_job(job: Job) -> tuple[Signal, list[Readings]]:
    """Sample times in seconds from the first, and the readings of each host, by index.

    A reading is an array of one value per sample or a number that holds throughout; a column of the platform that is
    missing among them is always zero.
    """
    base = profile(job.platform, job.model, job.task, job.dataset, job.phase)
    course = Draws(("job", job.seed, job.platform, job.workload, job.phase))
    shaped = base.shifted(course.stream("run"), _RUN_SPREAD)
    times = _times(job, course)
    grid = np.concatenate([[-job.interval_s], times])  # one sample more in front, for differences
    dt = job.interval_s
    wrong = [disturb(job, host, grid) for host in range(job.hosts)]
    plain = activity(shaped, grid, [delay(w, shaped, np.ones(len(grid))) for w in wrong], 0, course, job.duration_s)
    clocks = [
        clock_cut(w, phase_load(shaped, plain.phases), dt)[1] if job.machine.gpus else np.ones(len(grid)) for w in wrong
    ]
    delays = [delay(w, shaped, clock) for w, clock in zip(wrong, clocks, strict=True)]
    readings = []
    for host, name in enumerate(job.host_names()):
        draws = Draws((*course.scope, name))
        act = activity(shaped, grid, delays, host, course, job.duration_s)
        state = host_state(job, shaped, act, wrong[host], dt, draws)
        shown = read(job.machine, state, dt, draws)
        for metric, index in wrong[host].held.items():
            shown[metric] = np.broadcast_to(shown[metric], len(grid))[index]
        for metric, silent in wrong[host].silent.items():
            shown[metric] = np.where(silent, np.nan, shown[metric])
        readings.append({metric: v if isinstance(v, float) else v[1:] for metric, v in shown.items()})
    return times, readings


def _times(job: Job, draws: Draws) -> Signal:
    """The sampler's moments: a tick every interval, each some milliseconds late, now and then more; whole ms."""
    rng = draws.stream("ticks")
    n = job.samples
    late = np.minimum(rng.gamma(1.5, 0.0009, n), 0.3 * job.interval_s)
    very = (rng.random(n) < _LATE_SHARE) * rng.uniform(0.1, 0.35, n) * job.interval_s
    ticks = np.arange(n) * job.interval_s + late + very
    moments = np.maximum.accumulate(np.round(ticks - ticks[0], 3) * 1000 + 0.5).astype(np.int64)
    return np.asarray(moments / 1000)


def _stamps(job: Job, started_at: datetime, times: Signal) -> pl.Series:
    """Times as the file has them: the first sample lies within the second that the file's name gives."""
    into = int(Draws(("first sample", job.seed, job.host_names()[0])).stream("ms").integers(50, 900))
    first = np.datetime64(started_at + timedelta(milliseconds=into), "ms")
    return pl.Series("", first + np.rint(times * 1000).astype("timedelta64[ms]")).dt.to_string(_TIME_FORMAT)


def run_text(job: Job, stamps: pl.Series, hosts: Mapping[str, Readings]) -> bytes:
    """A run file: the header, then one line per sample; hosts lie side by side."""
    shape = columns(job.platform)
    header = ["", *(column_name(column.metric, host) for host in hosts for column in shape)]
    pieces = [stamps]
    still: list[str] = []
    for readings in hosts.values():
        for column in shape:
            cell = _cells(column, readings.get(column.metric, 0.0))
            if isinstance(cell, str):
                still.append(cell)
                continue
            if still:
                pieces.append(pl.repeat("\t".join(still), len(stamps), eager=True))
                still = []
            pieces.append(cell)
    if still:
        pieces.append(pl.repeat("\t".join(still), len(stamps), eager=True))
    frame = pl.DataFrame([piece.alias(str(place)) for place, piece in enumerate(pieces)])
    body = frame.write_csv(separator="\t", include_header=False, quote_style="never")
    return ("\t".join(header) + "\n" + body).encode()


def _cells(column: Column, values: Signal | float) -> str | pl.Series:
    """A column as text where it never moves, else as numbers that print as they should."""
    if isinstance(values, float):
        return "" if np.isnan(values) else _text(values, column.digits)
    if column.digits:
        rounded = np.round(values, column.digits)
        return pl.Series(rounded).fill_nan(None)
    gaps = np.isnan(values)
    whole = np.where(gaps, 0, values).astype(np.int64) if gaps.any() else values.astype(np.int64)
    series = pl.Series(whole)
    return pl.select(pl.when(pl.Series(~gaps)).then(series)).to_series() if gaps.any() else series


def _text(value: float, digits: int) -> str:
    return str(round(value, digits)) if digits and value else str(round(value))


def _label_text(told: list[Label], stamps: pl.Series) -> bytes:
    lines = ["start,end,fault,subsystem,metrics"]
    lines += [
        f"{stamps[t.first]},{stamps[t.last]},{t.fault},{t.subsystem},{';'.join(t.metrics)}"
        for t in sorted(told, key=lambda label: (label.first, label.last, label.fault))
    ]
    return ("\n".join(lines) + "\n").encode()


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
