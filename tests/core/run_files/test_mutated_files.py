"""Damaged run files: each is read, or rejected in one sentence, in bounded memory, and stops no other."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.errors import RunFileError
from infrascope_core.pipeline import refresh
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.labels import read_labels
from infrascope_core.run_files.meta import read_meta
from infrascope_core.run_files.metric_types import read_types
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.entry import Meta
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from tests.core.run_files.mutations import BESIDE, damaged, mutated
from tests.runs import run_name, write_run

ROOT = Path(__file__).parents[3]
GIB = 2**30
_LONGEST = 400
"""Characters of a reason: what a file holds is quoted, but not all of it."""


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """What hangs fails."""

    def too_late(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, too_late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def is_a_sentence(reason: str) -> bool:
    return 0 < len(reason) < _LONGEST and reason.isprintable()


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_read_or_rejected_in_one_sentence(tmp_path, seed):
    raw, packed = mutated(write_run(tmp_path, 1, samples=60).read_bytes(), random.Random(seed))
    path = tmp_path / (run_name(2) + (".gz" if packed else ""))
    path.write_bytes(raw)
    signal.alarm(20)
    try:
        assert read_run_file(path).samples
    except RunFileError as error:
        assert error.path == path
        assert is_a_sentence(error.fault)


SPAN = "2026-11-01 10:00:{:02d}.100,2026-11-01 10:00:{:02d},hog,CPU,a[%];b[%]\n"
SIDE_FILES: dict[str, tuple[str, Callable[[Path], pl.DataFrame]]] = {
    "labels": (
        "start,end,fault,subsystem,metrics\n" + "".join(SPAN.format(i, i + 3) for i in range(20)),
        lambda path: read_labels(path, "r"),
    ),
    "types": (
        "metric,type,origin\n" + "".join(f"m{i}[%],counter,node_{i}\n" for i in range(20)),
        lambda path: read_types(path, "r"),
    ),
    "meta": (
        "source_file,phase,mode,workload,n_rows,n_cols\n"
        + "".join(f"train_separated/{run_name(i)},train,x,W,{i},5\n" for i in range(20)),
        lambda path: read_meta(Meta(path, path.read_bytes())),
    ),
}


@pytest.mark.parametrize("kind", SIDE_FILES)
@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 1060), marks=pytest.mark.slow)], ids=str)
def test_what_lies_beside_run_files_is_read_or_rejected_in_one_sentence(tmp_path, kind, seeds):
    text, read = SIDE_FILES[kind]
    path = tmp_path / f"{kind}.csv"
    accepted_ones = 0
    for seed in seeds:
        signal.alarm(20)
        path.write_bytes(damaged(text.encode(), random.Random(seed), BESIDE))
        try:
            read(path).write_json()
            accepted_ones += 1
        except RunFileError as error:
            assert error.path == path
            assert is_a_sentence(error.fault), error.fault
    assert 0 < accepted_ones < len(seeds)


def refreshed(place: Path, seeds: range) -> None:
    """Refresh a folder of good and damaged files: all that are accepted are judged, and the good ones are."""
    good = [write_run(place / "runs", second, samples=250) for second in (1, 2, 3)]
    for seed in seeds:
        raw, packed = mutated(good[0].read_bytes(), random.Random(seed))
        at = datetime(2026, 11, 2) + timedelta(seconds=seed)
        name = good[0].name.replace("2026-11-01T10-00-01", f"{at:%Y-%m-%dT%H-%M-%S}")
        (place / "runs" / (name + (".gz" if packed else ""))).write_bytes(raw)
    folder = DataFolder(place / "data", sources=(place / "runs",))
    refresh(folder)
    folder = folder.fresh()
    runs, rejected = accepted(folder)["run_key"].to_list(), folder.lake.read(REJECTED_FILES)
    assert {path.stem for path in good} <= set(runs)
    assert folder.lake.keys(ANOMALY_REPORT) == runs
    assert len(runs) + rejected.height == len(seeds) + len(good)
    assert all(map(is_a_sentence, rejected["reason"]))


_REFRESHED = """
import resource, sys
from pathlib import Path
from infrascope_core.run_files.sources import folder
from tests.core.run_files.test_mutated_files import refreshed
folder._WATCH_S = 0.0
refreshed(Path(sys.argv[1]), range(*map(int, sys.argv[2:])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 250))
def test_a_thousand_damaged_files_stop_no_other_in_bounded_memory(tmp_path, first):
    """Far numbers and times among them, which are accepted and go through all that is pooled."""
    words = [sys.executable, "-W", "error::RuntimeWarning", "-c", _REFRESHED]
    done = subprocess.run(
        [*words, str(tmp_path), str(first), str(first + 250)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) * 1024 < 2 * GIB
