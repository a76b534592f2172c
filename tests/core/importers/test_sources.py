"""Telemetry as a source of a data folder: what is new is imported, and nothing twice."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from infrascope_core import pipeline
from infrascope_core.errors import SourceError
from infrascope_core.importers import prometheus
from infrascope_core.importers.sources import import_sources
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources import folder as sources_folder
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from tests.core.importers.standin import StandIn, failed, serving
from tests.core.importers.test_logs import SMI

START = datetime(2025, 3, 1, 10)
ZERO = 1740823200.0
"""The same, in seconds since 1970."""
NOW = START + timedelta(hours=5)
LOAD = {"__name__": "node_load1", "job": "node", "instance": "h1:9100"}
MEMORY = {**LOAD, "__name__": "node_memory_MemFree_bytes"}
JOBS = "JobID|NodeList|Start|End|JobName\n7|h1|2025-03-01T10:00:00|2025-03-01T11:00:00|bert\n"
LATER = "8|h1|2025-03-01T12:00:00|2025-03-01T12:30:00|bert\n"
KEY = "train_bertforUnknown_default_2025-03-01T10-00-00_h1"
LATER_KEY = "train_bertforUnknown_default_2025-03-01T12-00-00_h1"


def every(seconds: float, hours: float, first: float = 0.25) -> list[tuple[float, str]]:
    return [(ZERO + first + i * seconds, str(100 + i % 7)) for i in range(round(hours * 3600 / seconds))]


@pytest.fixture
def server(monkeypatch) -> Iterator[StandIn]:
    monkeypatch.setattr(prometheus, "_BACKOFF_S", 0.0)
    with serving(StandIn([(LOAD, every(15, 5)), (MEMORY, every(15, 5))])) as standin:
        yield standin


@pytest.fixture
def source(tmp_path, server) -> Path:
    (tmp_path / "jobs.txt").write_text(JOBS)
    path = tmp_path / "cluster.yaml"
    path.write_text(f"source: prometheus\nurl: {server.url}\nsacct: jobs.txt\n")
    return path


def folder_of(*sources: Path) -> DataFolder:
    return DataFolder(sources[0].parent / "data", Settings(), sources)


def keys(folder: DataFolder) -> list[str]:
    return Inbox.of(folder.fresh()).keys


def notices(folder: DataFolder) -> list[str]:
    return Inbox.of(folder.fresh()).notices


def test_jobs_that_have_ended_are_imported_once(source, server):
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    assert keys(folder) == [KEY]
    (path,) = (folder.root / "sources" / "cluster").glob("*.tsv")
    asked, state = len(server.asked), path.stat()
    import_sources(folder, now=NOW)
    assert (len(server.asked), path.stat()) == (asked, state), "nothing is asked, nothing is written"


def test_a_new_job_is_taken_when_it_has_ended(source, server):
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    source.with_name("jobs.txt").write_text(JOBS + LATER)
    import_sources(folder, now=datetime(2025, 3, 1, 12, 30, 30))
    assert keys(folder) == [KEY]
    said = "1 of the jobs in the output of sacct have not ended yet, and are left for a later import"
    assert notices(folder) == [f"{source}: {said}"], "what was scraped last may still be on its way"
    server.asked.clear()
    import_sources(folder, now=NOW)
    assert keys(folder) == [KEY, LATER_KEY]
    assert {form.get("start", form["time" if "time" in form else "start"]) for _, form in server.asked} == {
        "1740830400.000",
        "1740832200.000",
    }, "only the time of the new job is asked for"
    assert notices(folder) == []


def test_a_job_without_samples_is_said_and_asked_for_until_there_can_be_none(source, server):
    source.with_name("jobs.txt").write_text(JOBS + LATER.replace("h1", "h[1-2]"))
    server.series = [(labels, values[:300]) for labels, values in server.series]  # until 11:15
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    assert keys(folder) == [KEY]
    assert notices(folder) == [f"{source}: of 2 jobs on a host there are no samples"]
    for now, asks in ((NOW, True), (NOW + timedelta(days=2), True), (NOW + timedelta(days=2), False)):
        server.asked.clear()
        import_sources(folder, now=now)
        assert bool(server.asked) == asks


def test_a_server_that_is_down_is_one_sentence_and_is_asked_again(source, server):
    folder = folder_of(source)
    server.misbehave = lambda path, form: failed(500, "out of order")
    with pytest.raises(SourceError) as raised:
        import_sources(folder, now=NOW)
    assert str(raised.value) == (f"{source}: {server.url}: does not answer after 4 attempts (HTTP 500, out of order)")
    assert keys(folder) == []
    server.misbehave = lambda path, form: None
    import_sources(folder, now=NOW)
    assert keys(folder) == [KEY]


def test_what_was_imported_is_read_while_the_server_is_down_and_other_sources_are_too(source, server, tmp_path):
    folder = folder_of(source)
    pipeline.refresh(folder)
    assert accepted(folder.fresh())["run_key"].to_list() == [KEY]
    source.with_name("jobs.txt").write_text(JOBS + LATER)
    server.misbehave = lambda path, form: failed(500, "out of order")
    (tmp_path / "smi.csv").write_text(SMI)
    (tmp_path / "gpus.yml").write_text("source: nvidia-smi\nfiles: smi.csv\nhost: gpu01\nmodel: bert\n")
    folder = folder_of(source, tmp_path / "gpus.yml")
    with pytest.raises(SourceError, match="does not answer after 4 attempts"):
        pipeline.refresh(folder)
    assert accepted(folder.fresh())["run_key"].to_list() == [
        KEY,
        "train_bertforUnknown_default_2026-11-20T10-00-00_gpu01",
    ]
    server.misbehave = lambda path, form: None
    pipeline.refresh(folder)
    assert len(accepted(folder.fresh())) == 3
    lake = {file: file.stat().st_mtime_ns for file in (folder.root / "lake").rglob("*.parquet")}
    pipeline.refresh(folder)
    assert lake == {file: file.stat().st_mtime_ns for file in (folder.root / "lake").rglob("*.parquet")}


def test_an_import_that_was_cut_off_continues(source, server):
    source.with_name("jobs.txt").write_text(JOBS + LATER)
    folder = folder_of(source)
    answers = iter([None, None])
    server.misbehave = lambda path, form: next(answers, failed(400, "enough"))
    with pytest.raises(SourceError, match="answers HTTP 400"):
        import_sources(folder, now=NOW)
    assert keys(folder) == [KEY]
    server.asked.clear()
    server.misbehave = lambda path, form: None
    import_sources(folder, now=NOW)
    assert keys(folder) == [KEY, LATER_KEY]
    assert sum(path.endswith("query") for path, _ in server.asked) == 1


def test_what_a_killed_import_left_is_swept(source, server):
    folder = folder_of(source)
    left = folder.root / "sources" / "cluster" / f".{KEY}.tsv.abc.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    os.utime(left, (0, 0))
    import_sources(folder, now=NOW)
    assert not left.exists() and keys(folder) == [KEY]


def test_run_files_that_were_read_and_put_away_are_not_imported_again(source, server):
    folder = folder_of(source)
    pipeline.refresh(folder)
    done = pipeline.prune(folder.fresh(), NOW)
    assert done.runs == (KEY,)
    assert [path.name for path in (folder.root / "sources" / "cluster").iterdir()] == [".import.json"]
    server.asked.clear()
    pipeline.refresh(folder)
    assert server.asked == [] and accepted(folder.fresh())["run_key"].to_list() == [KEY]


def test_another_mapping_makes_run_files_anew_as_far_as_there_are_samples(source, server, tmp_path):
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    (path,) = (folder.root / "sources" / "cluster").glob("*.tsv")
    assert "Memory:MemFree.h1[kB]" in path.read_text().splitlines()[0]
    (tmp_path / "site.yaml").write_text(
        "host: [instance]\nrules:\n  - {source: node_load1, column: 'Site:load[-]', type: gauge}\n"
    )
    source.write_text(source.read_text() + "mapping: site.yaml\n")
    import_sources(folder, now=NOW)
    assert path.read_text().splitlines()[0] == "\tSite:load.h1[-]"
    server.series = []
    source.write_text(source.read_text().replace("site.yaml", "[node_exporter]"))
    import_sources(folder, now=NOW)
    assert path.read_text().splitlines()[0] == "\tSite:load.h1[-]"
    assert "has no series between" in notices(folder)[0]


def test_jobs_by_a_label_are_taken_when_they_are_whole(source, server):
    gpu = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "gpu", "instance": "h1:9400", "gpu": "0"}
    hours = every(15, 5)
    server.series = [
        ({**gpu, "hpc_job": "1"}, hours[:480]),  # from before the first look until 12:00
        ({**gpu, "hpc_job": "2"}, hours[480:720]),  # until 13:00
        ({**gpu, "hpc_job": "3"}, hours[720:]),  # until 15:00
    ]
    source.write_text(f"source: prometheus\nurl: {server.url}\njob_label: hpc_job\nstart: 4h\n")
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    assert keys(folder) == ["train_unknownforUnknown_default_2025-03-01T12-00-00_h1"]
    assert notices(folder) == [
        f"{source}: 1 of the jobs had samples until just now, and are left until they have none",
        f"{source}: 1 of the jobs may have begun before 2025-03-01 11:00:00, and are left out; say an earlier start",
    ]
    import_sources(folder, now=NOW + timedelta(minutes=10))
    assert keys(folder) == [
        "train_unknownforUnknown_default_2025-03-01T12-00-00_h1",
        "train_unknownforUnknown_default_2025-03-01T13-00-00_h1",
    ]


def test_a_time_by_hand_is_imported_when_it_is_over(source, server):
    source.write_text(
        f"source: prometheus\nurl: {server.url}\nstart: 2025-03-01T10:00:00\nend: 2025-03-01T11:00:00\nhosts: [h1]\n"
    )
    folder = folder_of(source)
    import_sources(folder, now=datetime(2025, 3, 1, 11))
    assert (keys(folder), server.asked) == ([], [])
    assert notices(folder) == [f"{source}: the time until 2025-03-01 11:00:00 is not over yet"]
    import_sources(folder, now=NOW)
    assert keys(folder) == ["train_unknownforUnknown_default_2025-03-01T10-00-00_h1"]


def test_files_are_read_again_when_they_have_changed(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.csv").write_text(SMI)
    source = tmp_path / "gpus.yaml"
    source.write_text("source: nvidia-smi\nfiles: logs/*.csv\nhost: gpu01\nmodel: bert\n")
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    (path,) = (folder.root / "sources" / "gpus").glob("*.tsv")
    lines, state = path.read_text().splitlines(), path.stat().st_mtime_ns
    import_sources(folder, now=NOW)
    assert path.stat().st_mtime_ns == state
    header, *_, last, _ = SMI.splitlines()
    (logs / "b.csv").write_text(f"{header}\n{last.replace('10:00:0', '10:00:1')}\n")
    import_sources(folder, now=NOW)
    assert path.read_text().splitlines()[: len(lines)] == lines and len(path.read_text().splitlines()) > len(lines)


def test_a_run_of_files_that_was_pruned_stays_so_when_they_change(tmp_path):
    (tmp_path / "smi.csv").write_text(SMI)
    source = tmp_path / "gpus.yaml"
    source.write_text("source: nvidia-smi\nfiles: smi.csv\nhost: gpu01\n")
    folder = folder_of(source)
    pipeline.refresh(folder)
    (key,) = pipeline.prune(folder.fresh(), datetime(2027, 1, 1)).runs
    (tmp_path / "smi.csv").write_text(SMI[: SMI.rindex("\n") + 1])
    import_sources(folder.fresh(), now=NOW)
    assert keys(folder) == [] and accepted(folder.fresh())["run_key"].to_list() == [key]


def test_a_log_that_is_being_written_is_left_for_the_next_look(tmp_path, monkeypatch):
    (tmp_path / "smi.csv").write_text(SMI)
    source = tmp_path / "gpus.yaml"
    source.write_text("source: nvidia-smi\nfiles: smi.csv\nhost: gpu01\n")

    def written(seconds: float) -> None:
        os.utime(tmp_path / "smi.csv", (0, 0))

    monkeypatch.setattr(sources_folder, "_WATCH_S", 1.0)
    monkeypatch.setattr(time, "sleep", written)
    folder = folder_of(source)
    import_sources(folder, now=NOW)
    assert keys(folder) == []
    assert notices(folder) == [f"{source}: {tmp_path}/smi.csv: is still being written; it is left for the next look"]
    import_sources(folder, now=NOW)
    assert len(keys(folder)) == 1 and notices(folder) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "source: expected one of prometheus, openmetrics, sar, nvidia-smi, dcgm, ldms, table, found nothing"),
        ("[1, 2]", "source: expected one of prometheus"),
        ("source: influx", "found 'influx'"),
        ("source: prometheus", "url: expected a string, found nothing"),
        ("source: prometheus\nurl: http://x\nsaccct: a", "saccct: unknown; did you mean sacct?"),
        ("source: prometheus\nurl: http://x\nsacct: 3", "sacct: expected a path or nothing, found 3"),
        ("source: prometheus\nurl: http://x\nsacct: nowhere.txt", "nowhere.txt: cannot be read (No such file or dir"),
        ("source: prometheus\nurl: http://x\nstart: 2025-03-01", "say when the time to import ends"),
        ("source: prometheus\nurl: http://x\nstart: 2d\nend: 1d", "expected a time as 2026-11-20T10:00:00, found '2d'"),
        ("source: prometheus\nurl: ftp://x\nsacct: jobs.txt", "expected an address as http://prometheus:9090"),
        ("source: prometheus\nurl: http://x\nsacct: jobs.txt\nheaders: [lab]", "expected a header as 'X-Scope-OrgID"),
        ("source: prometheus\nurl: http://x\nsacct: jobs.txt\nmapping: nosuch", "nosuch: no such mapping"),
        ("source: sar\nfiles: a\ninterval: 5", "interval is for logs without times, which only dcgm has"),
        ("source: nvidia-smi\nfiles: []", "files: expected a non-empty list of paths, found []"),
        ("source: nvidia-smi\nfiles: '*.csv'\nhost: h", "*.csv: cannot be read (No such file or directory)"),
        ("source: [", "cannot be read as YAML"),
    ],
)
def test_what_is_wrong_with_a_source_is_one_sentence_that_names_it(tmp_path, text, said):
    (tmp_path / "jobs.txt").write_text(JOBS)
    source = tmp_path / "cluster.yaml"
    source.write_text(text)
    with pytest.raises(SourceError) as raised:
        import_sources(folder_of(source), now=NOW)
    assert said in str(raised.value) and str(raised.value).startswith(str(source)) and "\n" not in str(raised.value)


def test_two_sources_of_one_name_are_an_error(source, server, tmp_path):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "cluster.yml"
    other.write_text(source.read_text().replace("jobs.txt", "../jobs.txt"))
    with pytest.raises(SourceError, match=r"other/cluster\.yml: another source is called cluster as well"):
        import_sources(folder_of(source, other), now=NOW)
    assert keys(folder_of(source)) == [KEY]
