"""Recording real commands from start to end, and everything that can go wrong meanwhile."""

from __future__ import annotations

import csv
import errno
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from infrascope_core.collect import run_file, spool
from infrascope_core.collect.probe import Column, CounterReader, ProbeUnavailableError, RowReader, TextProbe
from infrascope_core.collect.procfs_stat import StatProbe
from infrascope_core.collect.recorder import CommandNotStartedError, Recording, RecordingLostError, record
from infrascope_core.collect.spool import Header, read_recording
from infrascope_core.errors import CollectError
from infrascope_core.store.lock import is_held

BURN = [sys.executable, "-c", "import time\nend = time.time() + 0.8\nwhile time.time() < end: pass"]
COLUMN_NAME = re.compile(r"(?:[A-Za-z_]+:)?[\w()/ .+%-]+\.node-1\[[\w%-]+\]")
FILE_NAME = re.compile(r"train_MLPforImageClassification_Digits_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_node-1\.txt")


def record_here(command: list[str], out_dir: Path, **changes: Any) -> Recording:
    arguments: dict[str, Any] = {
        "out_dir": out_dir,
        "model": "MLP",
        "task": "ImageClassification",
        "dataset": "Digits",
        "phase": "train",
        "host": "node-1",
        **changes,
    }
    return record(command, **arguments)


def read(path: Path | None) -> pd.DataFrame:
    """The file by pandas, after a look at its shape: a header and rows, all of one length."""
    assert path is not None
    text = path.read_text()
    assert text.endswith("\n")
    rows = list(csv.reader(text.splitlines(), delimiter="\t"))
    assert len({len(row) for row in rows}) == 1
    return pd.read_csv(path, sep="\t", index_col=0, parse_dates=[0])


def left_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_command_is_recorded_until_it_ends(tmp_path: Path) -> None:
    recording = record_here(["sleep", "1.05"], tmp_path)
    assert recording.exit_code == 0
    assert 8 <= recording.samples + recording.missed_ticks <= recording.elapsed_s / 0.1
    assert recording.path is not None
    assert left_in(tmp_path) == [recording.path.name]
    assert FILE_NAME.fullmatch(recording.path.name)
    frame = read(recording.path)
    assert len(frame) == recording.samples
    assert frame.index.is_monotonic_increasing
    assert frame.index.is_unique
    assert recording.path.read_text()[0] == "\t"
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\t", recording.path.read_text().splitlines()[1])
    bad_names = [name for name in frame.columns if not COLUMN_NAME.fullmatch(name)]
    assert not bad_names
    assert frame.columns.is_unique
    assert {
        "CPU:CPU0Utilization.node-1[%]",
        "AverageCPUUtilization.node-1[%]",
        "Memory:MemAvailable.node-1[kB]",
        "Memory:MemoryUtilization.node-1[%]",
        "NetworkInterStat_diff:rx_bytes.lo.node-1[Bytes]",
        "NetworkProtocolCounts:TCP.node-1[count]",
        "NetworkTCPRetrans_diff:TcpRetransSegs.node-1[count]",
        "ContextSwitches_diff:total.node-1[count]",
        "Interrupts_diff:total.node-1[count]",
    } <= set(frame.columns)
    assert all(dtype.kind in "if" for dtype in frame.dtypes)


def test_a_busy_core_shows(tmp_path: Path) -> None:
    average = "AverageCPUUtilization.node-1[%]"
    busy = read(record_here(BURN, tmp_path, probes=[StatProbe()]).path)
    share = 100 / len([name for name in busy.columns if name.startswith("CPU:CPU")])
    assert busy[average].median() > 0.6 * share
    assert busy[[name for name in busy.columns if name.startswith("CPU:CPU")]].max(axis=None) <= 100


def test_exit_codes_come_through_and_a_killed_command_leaves_a_valid_file(tmp_path: Path) -> None:
    killed = record_here(["sh", "-c", "sleep 0.25; kill -9 $$"], tmp_path, interval_s=0.05)
    assert killed.exit_code == 137
    assert len(read(killed.path)) == killed.samples >= 2
    failed = record_here(["sh", "-c", "sleep 0.15; exit 3"], tmp_path, interval_s=0.05)
    assert failed.exit_code == 3
    assert failed.path is not None
    assert len(left_in(tmp_path)) == 2, "a second recording of the same second gets a name of its own"


def test_a_command_that_does_not_exist_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CommandNotStartedError, match="command 'no-such-program' cannot be started") as caught:
        record_here(["no-such-program"], tmp_path)
    assert caught.value.exit_code == 127
    assert left_in(tmp_path) == []


def test_a_command_that_cannot_be_executed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for program in (tmp_path / "text", tmp_path):
        with pytest.raises(CommandNotStartedError, match="cannot be started") as caught:
            record_here([str(program)], tmp_path / "out")
        assert caught.value.exit_code == 126
    assert left_in(tmp_path / "out") == []


def test_a_command_shorter_than_an_interval_leaves_nothing_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = record_here(["sh", "-c", "exit 4"], tmp_path, interval_s=5, probes=[StatProbe()])
    assert (recording.path, recording.samples, recording.exit_code) == (None, 0, 4)
    assert "ended before the first full sample" in caplog.text
    assert left_in(tmp_path) == []


RECORD_SCRIPT = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from infrascope_core.collect.recorder import record
got = record(["sh", "-c", "trap 'exit 9' USR1; echo ready; exec sleep 20"], out_dir=Path(sys.argv[1]),
             interval_s=0.05, model="M", task="T", dataset="d", phase="infer")
sys.exit(got.exit_code)
"""


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_recorder_ends_the_command_and_the_file_is_valid(
    signum: signal.Signals, code: int, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RECORD_SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.4)
        process.send_signal(signum)
        assert process.wait(10) == code
    (name,) = left_in(tmp_path)
    assert len(read(tmp_path / name)) >= 2


def test_a_full_disk_while_sampling_loses_the_recording_but_not_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: spool.Spool) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool, "_WRITE_BYTES", 1)
    monkeypatch.setattr(spool.Spool, "_write", no_room)
    mark = tmp_path / "mark"
    with pytest.raises(RecordingLostError, match=r"No space left on device.*exit code 5") as caught:
        record_here(["sh", "-c", f"sleep 0.5; touch {mark}; exit 5"], tmp_path / "out", probes=[StatProbe()])
    assert caught.value.exit_code == 5
    assert mark.exists()
    assert left_in(tmp_path / "out") == []


class WideProbe(TextProbe):
    """More columns than a small file may hold."""

    def __init__(self, path: Path) -> None:
        super().__init__("wide", [path], lambda raw: {})

    def reader(self, base: bytes) -> RowReader:
        columns = {Column("Wide", f"column{number}", "", "count"): number for number in range(20_000)}
        return CounterReader(b"", lambda raw: columns)


def test_a_file_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"1")
    out = tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(RecordingLostError, match=r"File too large.*exit code 0"):
            record_here(["sleep", "0.25"], out, probes=[WideProbe(tmp_path / "text")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert left_in(out) == []


def test_a_folder_that_cannot_be_made_is_an_error_before_the_command_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    mark = tmp_path / "mark"
    with pytest.raises(CollectError, match="cannot be written"):
        record_here(["touch", str(mark)], tmp_path / "file" / "out")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model": "a_b"}, "model 'a_b' cannot stand"),
        ({"model": "MforX"}, "which separates model from task"),
        ({"dataset": ""}, "dataset '' cannot stand"),
        ({"task": "classification"}, "a capital letter first"),
        ({"task": "A/B"}, "task 'A/B'"),
        ({"host": "a.b"}, "host 'a.b'"),
        ({"phase": "test"}, "expected train or infer"),
        ({"interval_s": 0.0}, "out of range"),
        ({"interval_s": float("nan")}, "out of range"),
    ],
)
def test_arguments_that_make_no_file_name_are_refused(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    with pytest.raises(CollectError, match=re.escape(fault)):
        record_here(["true"], tmp_path / "out", **changes)
    assert not (tmp_path / "out").exists()


def test_no_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="no command"):
        record_here([], tmp_path)


class AbsentProbe(TextProbe):
    def __init__(self) -> None:
        super().__init__("absent", [], lambda raw: {})

    def start(self, interval_s: float) -> None:
        raise ProbeUnavailableError("not on this host")


def test_a_probe_that_cannot_be_used_is_skipped_with_one_logged_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        recording = record_here(["sleep", "0.25"], tmp_path, probes=[AbsentProbe(), StatProbe()])
    assert recording.skipped == ("absent: not on this host",)
    assert [entry.getMessage() for entry in caplog.records] == ["probe skipped: absent: not on this host"]
    with pytest.raises(CollectError, match="nothing to sample"):
        record_here(["sleep", "0.25"], tmp_path, probes=[AbsentProbe()])


class SlowProbe(StatProbe):
    def sample(self) -> bytes:
        time.sleep(0.12)
        return super().sample()


def test_ticks_that_pass_while_a_probe_is_slow_are_counted_as_missed(tmp_path: Path) -> None:
    recording = record_here(["sleep", "1"], tmp_path, interval_s=0.05, probes=[SlowProbe()])
    assert recording.samples <= 9
    assert recording.missed_ticks >= recording.samples
    assert len(read(recording.path)) == recording.samples


HEADER = Header(datetime(2026, 1, 2, 3, 4, 5, 678000), "node-1", (("a", {"x": [1]}), ("b", {})))


def test_the_spool_gives_back_what_it_was_given(tmp_path: Path) -> None:
    kept = spool.Spool(tmp_path / ".x.recording")
    given = [(0.1 * n, [os.urandom(n % 7000), b"text" * n]) for n in range(300)]
    kept.begin(HEADER)
    for at_s, texts in given:
        kept.append(at_s, texts)
    kept.finish()
    assert list(kept) == given
    with (tmp_path / ".x.recording").open("rb") as file:
        header, readings = read_recording(file)
        assert (header, list(readings)) == (HEADER, given)
    kept.close()
    assert left_in(tmp_path) == []


def test_a_spool_that_is_not_finished_gives_back_all_but_the_last_second(tmp_path: Path) -> None:
    kept = spool.Spool(tmp_path / ".x.recording")
    kept.begin(HEADER)
    given = [(0.1 * n, [os.urandom(50), b"text"]) for n in range(100)]
    for at_s, texts in given:
        kept.append(at_s, texts)
    whole = (tmp_path / ".x.recording").read_bytes()
    for end in range(len(whole.partition(b"}]]}\n")[0]) + 5, len(whole) + 1, 97):
        (tmp_path / "cut").write_bytes(whole[:end])
        with (tmp_path / "cut").open("rb") as file:
            found = list(read_recording(file)[1])
        assert found == given[: len(found)]
    with (tmp_path / ".x.recording").open("rb") as file:
        assert len(list(read_recording(file)[1])) >= 90
    kept.close()


def test_a_name_is_claimed_once_and_held(tmp_path: Path) -> None:
    kept = spool.Spool(tmp_path / ".x.recording")
    with pytest.raises(FileExistsError):
        spool.Spool(tmp_path / ".x.recording")
    assert left_in(tmp_path) == [".x.recording"]
    assert is_held(tmp_path / ".x.recording")
    kept.close()
    kept.close()


def test_numbers_are_written_whole_short_or_not_at_all() -> None:
    values = (None, 0, 123456789012345, 12.5, 100.0, 1 / 3, 0.00001)
    assert [run_file._cell(value) for value in values] == [
        "",
        "0",
        "123456789012345",
        "12.5",
        "100",
        "0.3333",
        "0",
    ]
