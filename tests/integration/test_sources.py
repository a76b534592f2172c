"""Sources from end to end: `infrascope fetch` and `run` against a stand-in for the Hub, archives, and Dagster."""

from __future__ import annotations

import io
import os
import random
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infrascope_core.cli import build_app
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES, RUN_FILES, RUN_INVENTORY, TELEMETRY
from infrascope_core.store.folder import DataFolder
from tests.hub import FIRST, REPO, SECOND, Hub, cut, serving, status, use
from tests.runs import run_name, write_run

SOURCE = f"hub:{REPO}"
ROOT = Path(__file__).parents[2]


def infrascope(*words: object):
    return CliRunner().invoke(build_app(), [str(word) for word in words])


def process(hub: Hub, home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with the variables that users of the Hub know."""
    environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home), "HF_TOKEN": "hf_secret"}
    program = "from infrascope_core.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("plain")
    return [write_run(folder, second, samples=600) for second in range(8)]


@pytest.fixture(scope="module")
def archive(runs) -> bytes:
    """Eight training runs and one for inference; one more is damaged, and a megabyte lies there that nobody wants."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in runs:
            packed.write(path, f"train_separated/{path.name}")
        packed.write(runs[0], f"infer_separated/{run_name(0, phase='infer')}")
        packed.writestr(f"train_separated/{run_name(9)}", "nothing")
        packed.writestr(f"__MACOSX/train_separated/._{run_name(0)}", random.Random(1).randbytes(2**20))
    return buffer.getvalue()


@pytest.fixture
def hub(archive, runs) -> Iterator[Hub]:
    with serving() as hub:
        described = "".join(f"./train_separated/{path.name},600,5,train,nonllm\n" for path in runs[:6])
        table = f"source_file,n_rows,n_cols,phase,mode\n{described}./train_separated/gone.txt,1,1,train,llm\n"
        hub.commit(FIRST, Reveal_CPU__zip=archive, meta_cpu__csv=table.encode())
        yield hub


def packed_bytes(archive: bytes, keys: list[str]) -> int:
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        return sum(info.compress_size for info in packed.infolist() if Path(info.filename).stem in keys)


def test_fetch_then_run_in_processes_of_their_own(tmp_path, hub, archive):
    hub.token = "hf_secret"
    home, data = tmp_path / "home", tmp_path / "data"
    hub.store_troubles.extend([None, cut(1000), status(503)])
    words = ("fetch", SOURCE, "--workload", "mlp*", "--phase", "train", "--runs", "3", "--data", data)
    fetched = process(hub, home, *words)
    assert fetched.returncode == 0, fetched.stderr
    assert re.search(rf"^3 runs fetched; `infrascope run --data {data}` goes on with them$", fetched.stdout, re.M)
    keys = accepted(DataFolder(data))["run_key"].to_list()
    assert len(keys) == 3
    assert not hub.store_troubles
    assert hub.sent <= 1.05 * packed_bytes(archive, keys) + 2_000_000
    assert hub.sent < 2**19 + 1.05 * packed_bytes(archive, keys) + 20_000, "the end of the archive, and the members"
    assert not [file for file in data.rglob("*") if file.suffix in (".txt", ".tsv", ".zip")]

    sent, asked = hub.sent, len(hub.requests)
    ran = process(hub, home, "run", "--data", data)
    assert ran.returncode == 0, ran.stderr
    assert "3 runs accepted, 0 files rejected" in ran.stdout
    assert (hub.sent, len(hub.requests)) == (sent, asked)
    assert len(list((data / "reports").glob("*.md"))) == 3

    again = process(hub, home, *words)
    assert again.returncode == 0, again.stderr
    assert (hub.sent, len(hub.requests)) == (sent, asked), "what is there is not fetched again"
    more = process(hub, home, *words[:6], "--runs", "5", "--data", data)
    assert more.returncode == 0, more.stderr
    assert set(keys) < set(accepted(DataFolder(data))["run_key"])
    assert accepted(DataFolder(data)).height == 5


@pytest.fixture
def here(hub, tmp_path, monkeypatch) -> Hub:
    """The stand-in, for commands in this process."""
    use(hub, tmp_path / "home", monkeypatch)
    return hub


def test_list_shows_what_there_is_and_fetches_none_of_it(tmp_path, here):
    result = infrascope("fetch", SOURCE, "--list", "--data", tmp_path / "data")
    assert result.exit_code == 0, result.output
    assert "10 runs, " in result.output and " to fetch, " in result.output
    assert re.search(r"train +MLP__ImageClassification__Digits +9 +6 ", result.output)
    assert re.search(r"infer +MLP__ImageClassification__Digits +1 +0 ", result.output)
    assert "1 file in metadata only" in result.output
    assert f"{SOURCE}, commit {FIRST}" in result.output
    assert not (tmp_path / "data" / "lake").exists()


def test_run_takes_a_data_set_and_a_selection(tmp_path, here):
    data = tmp_path / "data"
    result = infrascope("run", f"{SOURCE}?phase=train&workload=MLP*", "--data", data)
    assert result.exit_code == 0, result.output
    assert "8 runs accepted, 1 file rejected" in result.output
    rejected = DataFolder(data).lake.read(REJECTED_FILES)
    path = f"{SOURCE}/Reveal_CPU.zip/train_separated/{run_name(9)}"
    assert rejected.select("path", "run_key").rows() == [(path, run_name(9)[:-4])]
    rows = DataFolder(data).lake.read(RUN_INVENTORY)
    assert rows.height == 11
    assert rows["commit"].unique().to_list() == [FIRST]
    assert rows.filter("listed", "described").height == 6
    assert rows.filter(~rows["listed"])["file"].to_list() == ["./train_separated/gone.txt"]
    assert rows.filter(rows["samples"].is_not_null())["differs"].list.len().sum() == 0

    here.commit(SECOND, readme__md=b"")
    again = infrascope("run", f"{SOURCE}?phase=train&workload=MLP*", "--data", data, "--strict")
    assert again.exit_code == 1
    assert "8 runs accepted, 1 file rejected" in again.output


def test_update_takes_the_branch_where_it_is(tmp_path, here, archive):
    data = tmp_path / "data"
    assert infrascope("fetch", SOURCE, "--runs", 2, "--data", data).exit_code == 0
    here.commit(SECOND, Reveal_CPU__zip=archive, other__md=b"x")
    updated = infrascope("fetch", SOURCE, "--update", "--data", data)
    assert updated.exit_code == 0 and f"{SOURCE}: runs are read at commit {SECOND}" in updated.output
    sent = here.sent
    assert infrascope("fetch", SOURCE, "--runs", 2, "--data", data).exit_code == 0
    assert here.sent - sent < 10_000, "the archive is the same"
    assert DataFolder(data).lake.read(RUN_INVENTORY)["commit"].unique().to_list() == [SECOND]


def test_an_unreachable_hub_rejects_nothing_and_the_next_call_goes_on(tmp_path, here, monkeypatch):
    from infrascope_core.run_files.sources import transfer

    monkeypatch.setattr(transfer, "PATIENCE", transfer.Patience(tries=1, first_wait_s=0.01))
    data = tmp_path / "data"
    assert infrascope("fetch", SOURCE, "--list", "--data", data).exit_code == 0
    here.store_troubles.extend([status(500)] * 60)
    result = infrascope("fetch", SOURCE, "--runs", 3, "--data", data)
    assert result.exit_code == 1
    assert "3 runs could not be made; the first is train_" in result.output.replace("infer_", "train_")
    assert "the server answers with status 500; tried 2 times" in result.output
    assert DataFolder(data).lake.keys(TELEMETRY) == DataFolder(data).lake.keys(RUN_FILES) == []
    here.store_troubles.clear()
    result = infrascope("fetch", SOURCE, "--runs", 3, "--data", data)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fetch", SOURCE), "fetch: expected --list, --workload, --phase, --runs, or --all for every run there is"),
        (("fetch", SOURCE, "--all", "--runs", "3"), "--all is every run there is; use either that or a selection"),
        (("fetch", SOURCE, "--workload", "GPT*"), "none of its 10 files is of workload GPT*"),
        (("fetch", SOURCE, "--phase", "test"), "phase: expected one of train, infer, fine-tuning, found test"),
        (("fetch", "runs"), "runs: expected hub:OWNER/NAME, perhaps with @REVISION"),
        (("fetch", f"{SOURCE}?runs=1", "--runs", "2"), "selects runs itself; use either that or the options"),
        (("run", "hub:lab/none"), "hub:lab/none: there is no such data set at the Hub"),
        (("run",), "holds no lake yet; try `infrascope run PATH"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, here, words, sentence):
    result = infrascope(*words, "--data", tmp_path / "data")
    assert result.exit_code == 1
    (line,) = result.output.strip().splitlines()
    assert line.startswith("infrascope: ") and sentence in line


def test_run_takes_an_archive_and_a_folder_beside_it(tmp_path, archive, runs):
    path, data = tmp_path / "Reveal_CPU.zip", tmp_path / "data"
    path.write_bytes(archive)
    result = infrascope("run", path, runs[0].parent, "--data", data)
    assert result.exit_code == 0, result.output
    assert "9 runs accepted, 1 file rejected" in result.output, "copies count once"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["Reveal_CPU.zip", "data"]
    before = {file: file.stat().st_mtime_ns for file in (data / "lake").rglob("*.parquet")}
    assert infrascope("run", path, runs[0].parent, "--data", data).exit_code == 0
    assert {file: file.stat().st_mtime_ns for file in (data / "lake").rglob("*.parquet")} == before


def test_dagster_takes_a_data_set_as_a_source(tmp_path, here, instance):
    import dagster as dg

    from infrascope_dagster.definitions import build_defs
    from infrascope_dagster.resources import DataFolderResource

    resource = DataFolderResource(data=str(tmp_path / "data"), sources=[f"{SOURCE}?runs=2"])
    definitions = build_defs(resource)
    sensor = definitions.resolve_sensor_def("run_file_sensor") if hasattr(definitions, "resolve_sensor_def") else (
        definitions.get_repository_def().get_sensor_def("run_file_sensor")
    )  # fmt: skip

    def tick(cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
        context = dg.build_sensor_context(
            instance, cursor=cursor, resources={"infrascope": resource}, definitions=definitions
        )
        said = sensor(context)
        assert isinstance(said, (dg.SensorResult, dg.SkipReason))
        return said

    result = tick()
    assert isinstance(result, dg.SensorResult)
    added = {key for request in result.dynamic_partitions_requests for key in request.partition_keys}
    assert len(added) == 2
    instance.add_dynamic_partitions("run_files", sorted(added))
    job = definitions.resolve_job_def("refresh")
    assert job.execute_in_process(instance=instance).success
    assert set(accepted(DataFolder(tmp_path / "data"))["run_key"]) <= added

    here.commit(SECOND, readme__md=b"")
    (pin,) = (tmp_path / "data" / "sources").iterdir()
    os.utime(pin, (0, time.time() - 4000))
    said: dg.SensorResult | dg.SkipReason = result
    while isinstance(said, dg.SensorResult):
        for event in said.asset_events:
            instance.report_runless_asset_event(event)
        said = tick(said.cursor)
    assert f"main has moved from {FIRST[:12]} to {SECOND[:12]}" in said.skip_message


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_telemetry_after_the_next(tmp_path, archive):
    path = tmp_path / "Reveal_CPU.zip"
    path.write_bytes(archive)
    program = "from infrascope_core.cli.app import main; main()"
    words = [sys.executable, "-c", program, "run", str(path), "--data"]

    def read(data: Path) -> dict[str, bytes]:
        names = ("telemetry", "run_files", "faults")
        return {str(file.relative_to(data)): file.read_bytes() for n in names for file in (data / "lake" / n).iterdir()}

    chance = random.Random(1)
    began = time.monotonic()
    subprocess.run([*words, str(tmp_path / "whole")], cwd=ROOT, capture_output=True, check=True)
    took = time.monotonic() - began
    for attempt in range(4):
        data = tmp_path / f"killed{attempt}"
        for _ in range(2):
            process = subprocess.Popen(
                [*words, str(data)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(chance.uniform(0.2, 0.8) * took)
            process.kill()
            process.wait()
        subprocess.run([*words, str(data)], cwd=ROOT, capture_output=True, check=True)
        assert read(data) == read(tmp_path / "whole")
