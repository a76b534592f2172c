"""A recording that was cut off becomes a run file; one that is going on is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from infrascope_core.collect.nvidia_smi import nvidia_smi_probe
from infrascope_core.collect.perf import PerfProbe
from infrascope_core.collect.probe import Column, Probe
from infrascope_core.collect.procfs_diskstats import DiskstatsProbe
from infrascope_core.collect.procfs_net_dev import NetDevProbe
from infrascope_core.collect.procfs_stat import StatProbe
from infrascope_core.collect.recorder import record
from infrascope_core.collect.recovery import Recovered, recover, recover_all
from infrascope_core.collect.spool import Header, Spool
from infrascope_core.collect.turbostat import turbostat_probe
from infrascope_core.errors import CollectError, StorageError
from infrascope_core.pipeline import refresh
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.store.folder import DataFolder

ROOT = Path(__file__).parents[3]
NAME = "train_MLPforImageClassification_Digits_2026-11-01T10-00-00_node-1.txt"
_RECORD = """
import sys
from pathlib import Path
from infrascope_core.collect.recorder import record
record(["sh", "-c", "echo ready; exec sleep 30"], out_dir=Path(sys.argv[1]), interval_s=0.05,
       model="MLP", task="ImageClassification", dataset="Digits", phase="train", host="node-1")
"""


@contextmanager
def recorder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A recorder at work in a process of its own; its command is ended with it."""
    words = [sys.executable, "-c", _RECORD, str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A folder in which a recorder was killed after two seconds."""
    with recorder(tmp_path / "runs") as process:
        time.sleep(2)
        process.kill()
        assert process.wait(10) == -9
    return tmp_path / "runs"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_recorder_leaves_what_becomes_a_run_file(killed: Path) -> None:
    (name,) = names(killed)
    (recovered,) = recover_all(killed)
    assert isinstance(recovered, Recovered)
    assert recovered.path == killed / name.removeprefix(".").removesuffix(".recording")
    assert names(killed) == [recovered.path.name]
    run = read_run_file(recovered.path)
    # at most the last of two seconds is lost, at 20 samples a second
    assert recovered.samples == run.samples >= 15
    assert run.interval_s == pytest.approx(0.05, abs=0.01)
    assert recover_all(killed) == []


def test_the_next_collect_into_the_folder_recovers_it(killed: Path) -> None:
    words = ["collect", "--out", killed, "--interval", 0.05, "--", "sleep", 0.3]
    result = CliRunner().invoke(build_app(), [str(word) for word in words])
    assert result.exit_code == 0
    assert "samples recovered from a recording that was cut off" in result.output
    assert len(names(killed)) == 2
    assert all(read_run_file(path).samples for path in killed.iterdir())


def test_a_refresh_reports_it_and_one_action_makes_a_run_file_of_it(killed: Path, tmp_path: Path) -> None:
    (recording,) = killed.iterdir()
    folder = DataFolder(tmp_path / "data", sources=(killed,))
    refresh(folder)
    assert folder.lake.read(REJECTED_FILES).select("path", "reason").rows() == [
        (
            str(recording),
            f"a recording that was cut off; `infrascope collect --recover {killed}` makes a run file of it",
        )
    ]
    assert accepted(folder).is_empty()
    result = CliRunner().invoke(build_app(), ["collect", "--recover", str(killed)])
    assert result.exit_code == 0
    assert "samples recovered from a recording that was cut off" in result.output
    refresh(folder)
    assert folder.lake.read(REJECTED_FILES).is_empty()
    assert accepted(folder)["host"].to_list() == ["node-1"]


def test_a_recording_that_is_going_on_is_left_alone(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with recorder(runs) as process:
        time.sleep(1.2)
        (recording,) = names(runs)
        assert recover(runs / recording) is None
        assert recover_all(runs) == []
        folder = DataFolder(tmp_path / "data", sources=(runs,))
        refresh(folder)
        assert folder.lake.read(REJECTED_FILES).is_empty()
        assert names(runs) == [recording]
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    assert names(runs) == [recording.removeprefix(".").removesuffix(".recording")]


def abandoned(folder: Path, samples: int, name: str = NAME) -> Path:
    """The recording of a probe of /proc/stat, as a killed recorder leaves it."""
    folder.mkdir(exist_ok=True)
    kept = Spool(folder / f".{name}.recording")
    kept.begin(Header(datetime(2026, 11, 1, 10), "node-1", (("cpu", {}),)))
    for tick in range(samples + 1):
        times = f" {100 * tick} 0 0 {100 * tick} 0 0 0 0\n"
        kept.append(2.0 * tick, [f"cpu {times}cpu0{times}".encode()])
    kept._file.close()
    return kept.path


@pytest.fixture
def probe() -> StatProbe:
    probe = StatProbe()
    probe.name = "cpu"
    return probe


def test_the_values_are_those_that_the_recorder_would_have_written(tmp_path: Path, probe: StatProbe) -> None:
    recovered = recover(abandoned(tmp_path, 2), [probe])
    assert recovered == Recovered(tmp_path / f".{NAME}.recording", tmp_path / NAME, 2)
    states = "user nice system iowait irq softirq steal".split()
    names = ["CPU:CPU0Utilization", "AverageCPUUtilization", *(f"CPU:{state}" for state in states)]
    assert (tmp_path / NAME).read_text().splitlines() == [
        "\t".join(["", *(f"{name}.node-1[%]" for name in names)]),
        "\t".join(["2026-11-01 10:00:02.000", "50", "50", "50", *"000000"]),
        "\t".join(["2026-11-01 10:00:04.000", "50", "50", "50", *"000000"]),
    ]


def test_a_recording_without_a_full_sample_is_removed(tmp_path: Path, probe: StatProbe) -> None:
    for samples in (-1, 0):
        recording = abandoned(tmp_path, samples)
        assert recover(recording, [probe]) == Recovered(recording, None, 0)
        assert names(tmp_path) == []


def test_a_run_file_that_was_written_to_its_end_is_not_written_again(tmp_path: Path, probe: StatProbe) -> None:
    recording = abandoned(tmp_path, 2)
    (tmp_path / NAME).write_text("whole")
    assert recover(recording, [probe]) == Recovered(recording, tmp_path / NAME, 0)
    assert names(tmp_path) == [NAME]
    assert (tmp_path / NAME).read_text() == "whole"


def spoiled(path: Path, **changes: object) -> None:
    magic, line, rest = path.read_bytes().split(b"\n", 2)
    path.write_bytes(b"\n".join([magic, json.dumps(json.loads(line) | changes).encode(), rest]))


def replaced_by_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: p.write_bytes(b""), "it holds no recording"),
        (lambda p: p.write_bytes(b"infrascope recording 2\n" + p.read_bytes()[23:]), "it holds no recording"),
        (lambda p: p.write_bytes(p.read_bytes()[:30]), "its header is damaged"),
        (lambda p: p.write_bytes(b"infrascope recording 1\n[1]\n"), "its header is damaged"),
        (lambda p: spoiled(p, host="../../etc"), "its header is damaged"),
        (lambda p: spoiled(p, host=3), "its header is damaged"),
        (lambda p: spoiled(p, started="soon"), "its header is damaged"),
        (lambda p: spoiled(p, started="9999-12-31T23:59:59"), "date value out of range"),
        (lambda p: spoiled(p, probes=[["gone", {}]]), "this version has no probe 'gone'"),
        (lambda p: spoiled(p, probes=[["NVIDIA", {}]]), "this version has no probe 'NVIDIA'"),
        (replaced_by_a_fifo, "not a regular file"),
        (replaced_by_a_folder, "cannot be opened"),
    ],
)
def test_a_damaged_recording_is_reported_and_stays(tmp_path: Path, probe: StatProbe, spoil, message: str) -> None:
    recording = abandoned(tmp_path, 2)
    good = abandoned(tmp_path, 3, NAME.replace("10-00-00", "11-00-00"))
    spoil(recording)
    first, second = recover_all(tmp_path, [probe])
    assert isinstance(first, CollectError)
    assert str(first).startswith(f"{recording}: ")
    assert message in str(first)
    assert isinstance(second, Recovered)
    assert (second.recording, second.samples) == (good, 3)
    assert recording in tmp_path.iterdir()


def test_damage_in_the_middle_keeps_what_came_before(tmp_path: Path, probe: StatProbe) -> None:
    recording = abandoned(tmp_path, 50)
    content = bytearray(recording.read_bytes())
    content[len(content) // 2 :] = os.urandom(len(content) - len(content) // 2)
    recording.write_bytes(content)
    recovered = recover(recording, [probe])
    assert recovered is not None
    assert 10 <= recovered.samples < 50
    assert read_run_file(tmp_path / NAME).samples == recovered.samples


def test_what_was_half_written_goes_with_the_recording_and_nothing_else_does(tmp_path: Path, probe: StatProbe) -> None:
    recording = abandoned(tmp_path, 2)
    (tmp_path / f".{NAME[:100]}.x1.tmp").write_text("half")
    (tmp_path / ".mine.tmp").touch()
    os.utime(tmp_path / ".mine.tmp", (0, 0))
    assert isinstance(recover_all(tmp_path, [probe])[0], Recovered)
    assert names(tmp_path) == [".mine.tmp", NAME]
    assert not recording.exists()


def test_without_room_the_recording_stays(tmp_path: Path, probe: StatProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = abandoned(tmp_path, 2)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            recover(recording, [probe])
    assert names(tmp_path) == [recording.name]
    assert recover(recording, [probe]) == Recovered(recording, tmp_path / NAME, 2)


def test_what_a_probe_found_out_at_its_start_survives(tmp_path: Path) -> None:
    """Each probe's state goes through JSON into a probe that was never started, and reads the same."""
    block = tmp_path / "block"
    (block / "sda" / "device").mkdir(parents=True)
    disks = [DiskstatsProbe(Path("/proc/diskstats"), block) for _ in range(2)]
    disks[0].start(0.1)
    disks[0].stop()
    text = b"8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 1 sda1 1 2 3 4 5 6 7 8 9 10 11\n"
    interfaces = tmp_path / "net"
    for name, state, speed in (("eth0", "up", "1000"), ("eth1", "down", "10")):
        (interfaces / name).mkdir(parents=True)
        (interfaces / name / "operstate").write_text(state + "\n")
        (interfaces / name / "speed").write_text(speed + "\n")
    links = [NetDevProbe(Path("/proc/net/dev"), interfaces) for _ in range(2)]
    links[0].start(0.1)
    links[0].stop()
    lines = b"h\nh\n" + b"".join(b"  %s: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n" % n for n in (b"eth0", b"eth1"))
    gpu = Column("GPU", " utilization.gpu", "0", "%"), Column("GPU", " power.draw", "0", "W")
    cycles = (Column("Perf", "Cycles", "", "count"), Column("Perf", "Instructions", "", "count"))
    busy = (Column("Turbostat", "Busy%", "-", "%"),)
    streams: list[tuple[Sequence[Probe], bytes]] = [(disks, text), (links, lines)]
    for make, columns, printed in (
        (nvidia_smi_probe, gpu, b"0, 50, 120.5\n"),
        (PerfProbe, cycles, b"0.1;100;;cycles;;;\n0.1;250;;instructions;;;\n"),
        (turbostat_probe, busy, b"CPU\tBusy%\n-\t12.5\n"),
    ):
        started = make()
        started._columns, started._interval_s, started._parse = columns, 0.1, started._parser(columns)
        streams.append(([started, make()], printed))
    for (original, fresh), reading in streams:
        fresh.restore(json.loads(json.dumps(original.state())))
        ours, theirs = fresh.reader(reading), original.reader(reading)
        assert theirs.columns
        assert ours.columns == theirs.columns
        row = theirs.row(reading, 0.2)
        assert None not in row
        assert ours.row(reading, 0.2) == row


def test_a_recorder_that_ends_well_leaves_only_the_run_file(tmp_path: Path) -> None:
    recording = record(
        ["sleep", "0.3"], out_dir=tmp_path, interval_s=0.05, model="M", task="T", dataset="d", phase="infer",
        host="h", probes=[StatProbe()],
    )  # fmt: skip
    assert recording.path is not None
    assert names(tmp_path) == [recording.path.name]
    assert len(pd.read_csv(recording.path, sep="\t")) == recording.samples


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_gives_the_status_of_a_shell(tmp_path: Path, program: str, code: int) -> None:
    result = CliRunner().invoke(build_app(), ["collect", "--out", str(tmp_path / "runs"), "--", program])
    assert result.exit_code == code
    message = [line for line in result.output.splitlines() if "probe skipped" not in line]
    assert len(message) == 1
    assert message[0].startswith(f"infrascope: command '{program}' cannot be started (")
    assert names(tmp_path / "runs") == []


def test_a_folder_to_recover_that_does_not_exist(tmp_path: Path) -> None:
    result = CliRunner().invoke(build_app(), ["collect", "--recover", str(tmp_path / "nowhere")])
    assert result.exit_code == 1
    assert "nowhere: no such folder" in result.output
