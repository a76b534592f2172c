"""Run files and label files from a job: simulate every host, format, write aside, rename.

What belongs here: times, text and files. Formatting numbers is what a simulation costs; so columns that never move are
rendered once and in one piece, counts go out as integers, and the rest as the shortest decimal of their rounded value.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from infrascope_core.run_files.columns import column_name
from infrascope_core.run_files.name import labels_path
from infrascope_core.simulate.activity import Delay, activity, clock_cut, delay, phase_load, phase_shares, schedule
from infrascope_core.simulate.columns import columns
from infrascope_core.simulate.disturbance import Disturbance, Label, Signal, disturb, labels
from infrascope_core.simulate.host import host_state
from infrascope_core.simulate.instruments import Readings, read
from infrascope_core.simulate.plan import Draws, Job
from infrascope_core.simulate.scene import Scene
from infrascope_core.simulate.workloads import Profile, profile
from infrascope_core.store.atomic import aside, write_text

_RUN_SPREAD = 0.02
"""Runs of one workload differ by about this much in every number of their profile (Reveal, section 5.4)."""
_LATE_SHARE = 0.004
_ROWS = 4096
"""Rows that are formatted at once, so that they stay in the cache."""
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
    StorageError
        A file cannot be written.
    """
    times, hosts = simulate_job(job)
    names = job.run_names()
    groups = [list(range(job.hosts))] if job.one_file else [[host] for host in range(job.hosts)]
    paths = []
    for name, group in zip(names, groups, strict=True):
        path = out_dir / job.path(name)
        stamps = _stamps(job, name.started_at, times)
        known = [label for host in group for label in labels(job, host, times)]
        write_text(labels_path(path), _label_text(known, stamps))
        with aside(path) as place, place.open("wb") as stream:
            write_run(stream, job, stamps, {job.host_names()[host]: hosts[host] for host in group})
        paths.append(path)
    return paths


def simulate_job(job: Job) -> tuple[Signal, list[Readings]]:
    """Sample times in seconds from the first, and the readings of each host, by index.

    A reading is an array of one value per sample or a number that holds throughout; a column of the platform that is
    missing among them is always zero.
    """
    course = Draws(("job", job.seed, job.platform, job.workload, job.phase))
    usual = profile(job.platform, job.model, job.task, job.dataset, job.phase)
    asked = usual.shifted(course.stream("run"), _RUN_SPREAD)
    times = _times(job, course)
    grid = np.concatenate([[-job.interval_s], times])  # one sample more in front, for differences
    phases = phase_shares(schedule(asked, usual, job.duration_s), grid)
    wrong = [disturb(job, host, grid) for host in range(job.hosts)]
    delays = [_delay(job, asked, phases, state) for state in wrong]
    readings = []
    for index, (host, state) in enumerate(zip(job.host_names(), wrong, strict=True)):
        course_here = activity(asked, phases, delays, index, dt=job.interval_s, draws=course)
        scene = Scene(job, host, asked, course_here, state, job.interval_s, Draws((*course.scope, host)))
        shown = _with_faulty_sensors(read(scene, host_state(scene)), state)
        cut = {id(values): values if isinstance(values, float) else values[1:] for values in shown.values()}
        readings.append({name: cut[id(values)] for name, values in shown.items()})  # one array stays one
    return times, readings


def _delay(job: Job, asked: Profile, phases: dict[str, Signal], wrong: Disturbance) -> Delay:
    clock = np.ones(len(wrong.heat))
    if wrong.heat.any():
        clock = clock_cut(wrong, phase_load(asked, phases), job.interval_s)
    return delay(wrong, asked, clock)


def _with_faulty_sensors(readings: Readings, wrong: Disturbance) -> Readings:
    """A sensor that is stuck or silent does not change the host, only what is shown of it."""
    for metric, index in wrong.held.items():
        readings[metric] = np.broadcast_to(readings[metric], index.shape)[index]
    for metric, silent in wrong.silent.items():
        readings[metric] = np.where(silent, np.nan, readings[metric])
    return readings


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


def write_run(stream: BinaryIO, job: Job, stamps: pl.Series, hosts: Mapping[str, Readings]) -> None:
    """Write a run file: the header, then one line per sample; hosts lie side by side."""
    shape = columns(job.platform)
    names = [column_name(column.metric, host) for host in hosts for column in shape]
    stream.write("\t".join(["", *names]).encode() + b"\n")
    cells = [(readings.get(column.metric, 0.0), column.digits) for readings in hosts.values() for column in shape]
    groups = [
        list(group) for _, group in groupby(cells, key=lambda cell: (id(cell[0]), cell[1]) if _moves(cell) else 0)
    ]
    for start in range(0, len(stamps), _ROWS):
        rows = slice(start, start + _ROWS)
        pieces = [stamps[rows]]
        for group in groups:
            pieces.append(_piece(group, rows, len(pieces[0])))
        frame = pl.DataFrame([piece.alias(str(place)) for place, piece in enumerate(pieces)])
        frame.write_csv(stream, separator="\t", include_header=False, quote_style="never", batch_size=_ROWS)


_Cell = tuple[npt.NDArray[np.floating] | float, int]
"""A column's values and decimals."""


def _piece(group: list[_Cell], rows: slice, count: int) -> pl.Series:
    """Neighbouring columns that never move, or that show one and the same array, as one text; else numbers."""
    values, digits = group[0]
    if isinstance(values, float):
        still = "\t".join(_text(float(value), decimals) for value, decimals in group)
        return pl.Series([still]).new_from_index(0, count)
    numbers = _numbers(values[rows], digits)
    return numbers if len(group) == 1 else _repeated(numbers, len(group))


def _moves(cell: _Cell) -> bool:
    return not isinstance(cell[0], float)


def _numbers(values: npt.NDArray[np.floating], digits: int) -> pl.Series:
    """A column that moves, as numbers that print as they should; nan is an empty cell."""
    if digits:
        return pl.Series(np.round(values, digits), nan_to_null=True)
    gaps = np.isnan(values)
    if not gaps.any():
        return pl.Series(np.rint(values).astype(np.int32 if values.dtype == np.float32 else np.int64))
    return pl.Series(np.rint(values), nan_to_null=True).cast(pl.Int64)


def _repeated(numbers: pl.Series, times: int) -> pl.Series:
    """Neighbouring columns that show one and the same value, in one piece of text."""
    distinct, place = np.unique(numbers.to_numpy(), return_inverse=True)
    texts = pl.Series(["\t".join([str(value)] * times) for value in distinct.tolist()])
    return texts.gather(place)


def _text(value: float, digits: int) -> str:
    if np.isnan(value):
        return ""
    return str(round(value, digits)) if digits and value else str(round(value))


def _label_text(known: list[Label], stamps: pl.Series) -> str:
    lines = ["start,end,fault,subsystem,metrics"]
    lines += [
        f"{stamps[t.first]},{stamps[t.last]},{t.fault},{t.subsystem},{';'.join(t.metrics)}"
        for t in sorted(known, key=lambda label: (label.first, label.last, label.fault))
    ]
    return "\n".join(lines) + "\n"
