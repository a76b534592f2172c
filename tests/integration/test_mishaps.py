"""What goes wrong beside bad files: interruptions, kills, full disks, two folders with one name."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from infrascope_core.errors import InfraScopeError
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.reports.summary import summarize
from infrascope_core.run_files import ingestion
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.runs import accepted, run_file
from infrascope_core.run_files.tables import REJECTED_FILES, TELEMETRY
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import Lake
from infrascope_core.store.warehouse import is_published
from infrascope_core.symbols.tables import BASKETS
from tests.folders import content_of
from tests.runs import write_run

app = build_app()
ROOT = Path(__file__).parents[2]


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_an_error_on_one_file_is_reported_and_the_others_are_kept(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    paths = [write_run(runs, second) for second in (1, 2, 3)]
    whole = read_run_file

    def clumsy(entry, settings):
        if entry.path == paths[1]:
            raise MemoryError("no more")
        return whole(entry, settings)

    monkeypatch.setattr(ingestion, "read_run_file", clumsy)
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 1
    message = f"infrascope: {paths[1].stem} could not be made (run_files: unexpected MemoryError: no more)"
    assert result.output.rstrip().endswith(message)
    assert Lake(data / "lake").keys(TELEMETRY) == [paths[0].stem, paths[2].stem]
    monkeypatch.undo()
    result = infrascope("run", runs, "--data", data, "--strict")
    assert result.exit_code == 0, result.output
    assert "3 runs accepted" in result.output


def test_an_interruption_is_one_and_the_next_call_goes_on(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in (1, 2):
        write_run(runs, second)
    write = Lake.write

    for table in ("telemetry", "window_features", "thresholds", "frequent_itemsets"):

        def interrupted(self, frame, name, *more, table=table, **options):
            if getattr(name, "name", name) == table:
                raise KeyboardInterrupt
            return write(self, frame, name, *more, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Lake, "write", interrupted)
            result = infrascope("run", runs, "--data", data)
        assert result.exit_code == 130
        assert "interrupted" in result.output
        assert not Lake(data / "lake").keys(table)  # not a table of another stage before it
        assert not Lake(data / "lake").has(table)
    result = infrascope("run", runs, "--data", data, "--strict")
    assert result.exit_code == 0, result.output


def test_a_refit_that_is_killed_between_model_and_table_does_no_harm(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in (1, 2):
        write_run(runs, second)
    assert infrascope("run", runs, "--data", data).exit_code == 0
    write_run(runs, 3)
    write = Lake.write

    def killed(self, frame, name, *more, **options):
        if getattr(name, "name", name) == "baselines":
            raise KeyboardInterrupt
        return write(self, frame, name, *more, **options)

    monkeypatch.setattr(Lake, "write", killed)
    assert infrascope("run", runs, "--data", data, "--refit").exit_code == 130
    monkeypatch.undo()
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 0, result.output
    for model in (data / "models").glob("*.safetensors"):
        model.unlink()
    write_run(runs, 4)
    assert infrascope("run", runs, "--data", data).exit_code == 0  # a lost model is fitted again


def test_the_same_name_in_another_folder_is_rejected_though_it_comes_in_another_call(tmp_path):
    data = tmp_path / "data"
    first = write_run(tmp_path / "a", 1)
    other = write_run(tmp_path / "b", 1, samples=150)
    infrascope("run", tmp_path / "a", "--data", data)
    result = infrascope("run", tmp_path / "b", "--data", data, "--strict")
    assert result.exit_code == 1
    assert "duplicate run key" in DataFolder(data).lake.read(REJECTED_FILES)["reason"][0]
    assert run_file(DataFolder(data), first.stem)["samples"] == 400
    first.unlink()  # now the name is free
    assert infrascope("run", tmp_path / "b", "--data", data, "--strict").exit_code == 0
    assert run_file(DataFolder(data), other.stem)["samples"] == 150


def test_the_exit_status_is_about_this_call(tmp_path):
    data = tmp_path / "data"
    write_run(tmp_path / "good", 1)
    bad = write_run(tmp_path / "bad", 2)
    bad.write_text("nothing")
    assert infrascope("run", tmp_path / "good", "--data", data).exit_code == 0
    result = infrascope("run", tmp_path / "bad", "--data", data)
    assert result.exit_code == 1
    assert "no run could be used" in result.output
    assert infrascope("run", tmp_path / "good", "--data", data, "--strict").exit_code == 0


def test_a_data_folder_that_is_none(tmp_path):
    write_run(tmp_path / "runs", 1)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", Path("/proc/infrascope")):
        result = infrascope("run", tmp_path / "runs", "--data", folder)
        assert result.exit_code == 1
        assert f"{folder}: nothing can be written there" in result.output.replace("\n", "")


def test_a_full_disk_is_called_one(tmp_path):
    """A limit on the size of files stands in for the disk: the kernel refuses the write in the same place."""
    lake = tmp_path / "lake"
    program = (
        "import resource, signal, sys, polars as pl\n"
        "from pathlib import Path\n"
        "from infrascope_core.store.lake import Lake\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "frame = pl.DataFrame({'x': range(100_000)}).with_columns(y=pl.col('x').hash())\n"
        f"Lake(Path({str(lake)!r})).write(frame, 'telemetry', 'run')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "infrascope_core.errors.StorageError" in done.stderr
    assert "cannot be written" in done.stderr
    assert not list(lake.rglob("*.*"))


def test_a_run_that_fails_again_and_again_stops_no_other(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in (1, 2):
        write_run(runs, second)
    assert infrascope("run", runs, "--data", data).exit_code == 0
    broken = write_run(runs, 3).stem
    write_run(runs, 4)
    write = Lake.write

    def clumsy(self, frame, table, key=None, *more, **options):
        if (getattr(table, "name", table), key) == ("quality_metrics", broken):
            raise MemoryError("no more")
        return write(self, frame, table, key, *more, **options)

    monkeypatch.setattr(Lake, "write", clumsy)
    for second in (4, 5):
        write_run(runs, second)
        result = infrascope("run", runs, "--data", data)
        assert result.exit_code == 1
        assert f"{broken} could not be made (quality_metrics: unexpected MemoryError: no more)" in result.output
        assert len(Lake(data / "lake").keys("anomaly_report")) == second - 1


def test_a_full_disk_stops_at_once_and_is_reported_once(tmp_path, monkeypatch):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in range(1, 5):
        write_run(runs, second)
    whole, written = pl.DataFrame.write_parquet, []

    def until_full(frame, file, **options):
        if f"{os.sep}telemetry{os.sep}" in str(file):
            written.append(file)
            if len(written) > 1:
                Path(file).write_bytes(b"PAR1")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(frame, file, **options)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", until_full)
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 1
    (message,) = [line for line in result.output.splitlines() if line.startswith("infrascope:")]
    assert re.search(
        r"telemetry/\S+: cannot be written, with [\d,]+ bytes free there \(No space left on device\)", message
    )
    assert message.endswith("; 3 of 4 runs are left")
    assert result.output.count("No space left") == 1
    assert len(written) == 2
    monkeypatch.undo()
    assert not [*data.rglob(".*.tmp")]
    assert infrascope("run", runs, "--data", data, "--strict").exit_code == 0


_ON_A_SMALL_DISK = """
set -eu
mount -t tmpfs -o size="$3"k none "$2"
run() { "$4" -c 'from infrascope_core.cli.app import main; main()' run "$1" --data "$2"; }
code=0; run "$@" 2> "$5/complaint" || code=$?
echo $code > "$5/code"
mount -o remount,size=1g "$2"
run "$@"
du -sk "$2" | cut -f1 > "$5/size"
cp -a "$2/." "$5/content"
"""


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_point_is_called_one_and_the_next_call_goes_on(tmp_path):
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    for second in (1, 2, 3):
        write_run(tmp_path / "runs", second)

    def filled(kib: int) -> tuple[int, list[str], Path]:
        place = tmp_path / str(kib)
        (place / "data").mkdir(parents=True)
        words = ["unshare", "-rm", "sh", "-c", _ON_A_SMALL_DISK, "sh", tmp_path / "runs", place / "data", str(kib)]
        subprocess.run([*words, sys.executable, place], check=True, cwd=ROOT, capture_output=True)
        lines = (place / "complaint").read_text().splitlines()
        return int((place / "code").read_text()), [line for line in lines if "No space" in line], place

    code, lines, place = filled(1_000_000)
    assert (code, lines) == (0, [])
    whole, size = content_of(place / "content"), int((place / "size").read_text())
    for share in (0.002, 0.15, 0.4, 0.9):
        code, lines, place = filled(max(4, round(share * size)))
        assert (code, len(lines)) == (1, 1), share
        assert "cannot be written, with " in lines[0]
        assert content_of(place / "content") == whole
        assert not [*(place / "content").rglob(".*.tmp")]


def test_when_no_run_can_be_made_the_cause_is_reported_once(tmp_path):
    """A limit on the size of files stands in for the disk: it hits every run by itself."""
    runs = tmp_path / "runs"
    for second in range(1, 5):
        write_run(runs, second)
    program = (
        "import resource, signal\n"
        "from infrascope_core.cli import build_app\n"
        "app = build_app()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "app()\n"
    )
    words = ["run", str(runs), "--data", str(tmp_path / "data")]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("infrascope:")]
    assert "4 runs could not be made; the first is train_MLPforImageClassification_Digits_2026-11-01T10-00-01" in line
    assert "cannot be written" in line
    assert done.stderr.count("File too large") == 1
    assert "Traceback" not in done.stderr


def test_the_summary_reports_the_windows_that_were_used(tmp_path):
    write_run(tmp_path / "runs", 1, burst=(200, 260))
    settings = tmp_path / "settings.yaml"
    settings.write_text("features: {samples: 60}\n")
    result = infrascope("run", tmp_path / "runs", "--data", tmp_path / "data", "--settings", settings)
    assert result.exit_code == 0, result.output
    again = infrascope("summary", "--data", tmp_path / "data")
    assert again.output.strip() in result.output
    with pytest.raises(InfraScopeError, match="holds no lake"):
        DataFolder.as_last_filled(tmp_path / "empty")


_FILL = """
import sys
import time
from pathlib import Path
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Scope

folder = DataFolder(Path(sys.argv[1]), sources=(Path(sys.argv[2]),))
if sys.argv[3] == "backwards":
    for product in GRAPH.order:
        if product.scope.per_run:
            arriving = product.scope is Scope.ARRIVING
            for key in reversed(Inbox.of(folder).keys if arriving else list(accepted(folder)["run_key"])):
                GRAPH.make(folder, product.name, key)
        elif product.scope is not Scope.STUDIED:
            GRAPH.make_pooled(folder, product.name)
refresh(folder)
"""


def test_the_same_bytes_whatever_the_threads_and_the_order_of_runs(tmp_path):
    for second in range(1, 5):
        write_run(tmp_path / "runs", second, burst=(200, 280) if second == 2 else None)
    prints = []
    for threads, order in (("1", "backwards"), ("4", "forwards")):
        data = tmp_path / f"data{threads}"
        subprocess.run(
            [sys.executable, "-c", _FILL, str(data), str(tmp_path / "runs"), order],
            check=True, cwd=ROOT,
            env={**os.environ, "POLARS_MAX_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        )  # fmt: skip
        prints.append(
            {
                str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted([*data.rglob("*.parquet"), *data.rglob("*.safetensors")])
                if path.name != "baselines.parquet"  # it says when it was fitted
            }
        )
    assert prints[0] == prints[1]
    assert len(prints[0]) > 40


def test_the_samples_worst_episodes_name_injected_disturbances(sample):
    folder = sample
    summary = summarize(folder)
    named = summary.episodes.filter(fault="sync_writes", subsystem="Storage").height
    named += summary.episodes.filter(fault="memory_growth", subsystem="Memory").height
    assert named >= 2
    assert summary.episodes.filter(fault="sync_writes", subsystem="Storage").height
    assert summary.episodes.filter(fault="memory_growth", subsystem="Memory").height
    groups = folder.lake.read(BASKETS, accepted(folder)["run_key"][0])["metric_group"].n_unique()
    assert groups >= 7
    assert not summary.rejected.height
    assert summary.rules.height


def test_files_that_a_loss_of_power_left_empty_are_made_again(tmp_path):
    for second in (1, 2):
        write_run(tmp_path / "runs", second)
    folder = DataFolder(tmp_path / "data", sources=(tmp_path / "runs",))
    refresh(folder)
    key = accepted(folder)["run_key"][0]
    emptied = [folder.lake.path(table, key) for table in ("run_files", "telemetry", "baskets", "anomaly_report")]
    emptied += [folder.lake.path(table) for table in ("thresholds", "frequent_itemsets")]
    before = [path.read_bytes() for path in emptied]
    for path in emptied:
        path.write_bytes(b"")
    refresh(folder.fresh())
    assert [path.read_bytes() for path in emptied] == before


@pytest.mark.parametrize("ahead_s", [-1e8, pytest.param(1e8, marks=pytest.mark.slow)])
def test_the_times_of_files_do_not_say_what_is_new(tmp_path, ahead_s):
    """A clock is set back, or is that of another machine: what is new may be older than what was made of it."""
    runs, data, made = tmp_path / "runs", tmp_path / "data", set[str]()
    paths = [write_run(runs, second, samples=120) for second in (1, 2)]
    now = time.time()

    def set_clocks() -> None:
        for path in (each for each in data.rglob("*") if each.is_file()):
            os.utime(path, (now + ahead_s, now + ahead_s))

    def look() -> set[str]:
        made.clear()
        folder = DataFolder(data, sources=(runs,))
        refresh(folder, on_made=lambda product, key, frames: made.add(key or product.name))
        assert is_published(folder.fresh(), GRAPH)
        return set(made)

    os.utime(paths[0], (now + 1e9, now + 1e9))
    assert {path.stem for path in paths} < look()
    set_clocks()
    assert look() == set()
    write_run(runs, 2, samples=130)
    os.utime(paths[1], (now - 1e9, now - 1e9))
    assert look() >= {paths[1].stem, "basket_counts"}
    assert paths[0].stem not in made
    set_clocks()
    assert look() == set()
