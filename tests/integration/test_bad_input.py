"""Bad input through `infrascope run`: one sentence each, the other files go on, a good file heals it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infrascope_core.anomalies.tables import ANOMALY_SCORES, BASELINES
from infrascope_core.cli import build_app
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES, RUN_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS
from tests.runs import SPOIL, run_name, write_run

app = build_app()


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def rejected(data: Path) -> dict[str, str]:
    table = DataFolder(data).lake.read(REJECTED_FILES)
    return {Path(path).name: reason for path, reason in table.select("path", "reason").iter_rows()}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory) -> dict[str, object]:
    """Two good files among one of every bad kind, through the command; then again, with the bad ones replaced."""
    folder = tmp_path_factory.mktemp("spoiled")
    runs, data = folder / "runs", folder / "data"
    good = [write_run(runs, second) for second in (1, 59)]
    bad = {case: write_run(runs, second) for second, case in enumerate(SPOIL, start=2)}
    for case, path in bad.items():
        SPOIL[case][0](path)
    outcome: dict[str, object] = {"good": good, "bad": bad, "folder": DataFolder(data)}
    outcome["first"] = infrascope("run", runs, "--data", data)
    outcome["rejected"] = rejected(data)
    outcome["accepted"] = accepted(DataFolder(data))["run_key"].to_list()
    outcome["kept"] = [path.exists() for path in bad.values()]
    outcome["strict"] = infrascope("run", runs, "--data", data, "--strict")
    for second, _ in enumerate(SPOIL, start=2):
        write_run(runs, second)
    outcome["healed"] = infrascope("run", runs, "--data", data, "--strict")
    return outcome


@pytest.mark.parametrize("case", SPOIL)
def test_a_bad_file_is_rejected_in_one_sentence(spoiled, case):
    reason = spoiled["rejected"][spoiled["bad"][case].name]
    assert SPOIL[case][1] in reason
    assert "\n" not in reason


def test_the_others_go_on(spoiled):
    assert spoiled["first"].exit_code == 0, spoiled["first"].output
    assert f"2 runs accepted, {len(SPOIL)} files rejected" in spoiled["first"].output
    assert sorted(spoiled["rejected"]) == sorted(path.name for path in spoiled["bad"].values())
    assert spoiled["accepted"] == sorted(path.stem for path in spoiled["good"])
    for path in spoiled["good"]:
        assert spoiled["folder"].lake.read(BASKETS, path.stem).height
        assert spoiled["folder"].lake.read(ANOMALY_SCORES, path.stem).height
    assert all(spoiled["kept"])
    assert spoiled["strict"].exit_code == 1


@pytest.mark.parametrize("case", SPOIL)
def test_a_good_file_heals_it(spoiled, case):
    assert spoiled["healed"].exit_code == 0, spoiled["healed"].output
    assert rejected(spoiled["folder"].root) == {}
    assert spoiled["folder"].lake.read(ANOMALY_SCORES, spoiled["bad"][case].stem).height


def test_unknown_names_and_duplicates(tmp_path):
    runs, data = tmp_path / "runs", tmp_path / "data"
    first = write_run(runs / "a", 1)
    write_run(runs / "b", 1, samples=300)
    same = runs / "c" / first.name
    same.parent.mkdir()
    same.write_bytes(first.read_bytes())
    (runs / "[red]notes\x1b[31m.txt").write_text("hello")
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 0, result.output
    assert "\x1b[31m" not in result.output
    table = DataFolder(data).lake.read(REJECTED_FILES)
    reasons = dict(table.select("path", "reason").iter_rows())
    assert set(reasons) == {str(runs / "b" / first.name), str(runs / "[red]notes\x1b[31m.txt")}
    assert f"duplicate run key: {first}" in reasons[str(runs / "b" / first.name)]
    # the one that came first keeps the key, also when another sorts before it later
    write_run(runs / "0", 1, samples=200)
    infrascope("run", runs, "--data", data)
    assert accepted(DataFolder(data))["samples"].to_list() == [400]


def test_a_bad_replacement_takes_the_products_along(tmp_path):
    runs, data = tmp_path / "runs", tmp_path / "data"
    path, _ = write_run(runs, 1), write_run(runs, 2)
    infrascope("run", runs, "--data", data)
    assert DataFolder(data).lake.has(BASKETS, path.stem)
    path.write_text("nothing")
    infrascope("run", runs, "--data", data)
    assert not DataFolder(data).lake.has(BASKETS, path.stem)
    assert DataFolder(data).lake.read(RUN_FILES, path.stem)["status"].to_list() == ["rejected"]


def test_strange_but_valid_files(tmp_path):
    """Short, gapped, with repeated times, NaN, infinities, a column that ends, unknown columns: all accepted."""
    runs, data = tmp_path / "runs", tmp_path / "data"
    write_run(runs, 1)
    write_run(runs, 2, samples=4)
    path = write_run(runs, 3)
    lines = path.read_text().splitlines()
    head, rows = lines[0] + "\tWeird:thing.h1[?]\tno unit at all", [line.split("\t") for line in lines[1:]]
    for i, row in enumerate(rows):
        row += [["nan", "inf", "-inf", "1"][i % 4], "" if i > 200 else "3"]
    rows[50][0] = rows[49][0]
    del rows[100:120]
    path.write_text("\n".join([head, *("\t".join(row) for row in rows)]) + "\n")
    result = infrascope("run", runs, "--data", data, "--strict")
    assert result.exit_code == 0, result.output
    quality = DataFolder(data).lake.read(QUALITY_METRICS, path.stem)
    facts = {row["metric"]: row for row in quality.iter_rows(named=True)}
    assert facts["Weird:thing[?]"]["infinite"] == 190
    assert facts["Weird:thing[?]"]["missing"] == 95
    # 20 rows were cut out, and the repeated time left a hole of one behind it
    assert (facts["interval[s]"]["zeros"], facts["interval[s]"]["missing"]) == (1, 21)
    short = DataFolder(data).lake.read(GROUP_WINDOWS, run_name(2).removesuffix(".txt"))
    assert short.height == 0


def test_a_gzipped_bad_file_and_a_labels_file_that_is_none(tmp_path):
    runs, data = tmp_path / "runs", tmp_path / "data"
    good = write_run(runs, 1)
    good.with_name(good.stem + ".faults.csv").write_text("what,is,this\n")
    packed = write_run(runs, 2)
    (runs / f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes())[:2000])
    packed.unlink()
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 0, result.output
    reasons = rejected(data)
    assert "gzip data ends early" in reasons[f"{packed.name}.gz"]
    assert "expected the header start,end,fault,subsystem,metrics" in reasons[good.stem + ".faults.csv"]
    assert accepted(DataFolder(data)).height == 1


def test_nothing_to_use(tmp_path):
    (tmp_path / "runs").mkdir()
    for words, message, refused in (
        (("run", tmp_path / "runs", "--data", tmp_path / "d"), "no run could be used", False),
        (("run", tmp_path / "nowhere", "--data", tmp_path / "d"), "no such file or folder", True),
        (("run", tmp_path / "runs", "--recipe", "cake"), "no such recipe", True),
        (("summary", "--data", tmp_path / "empty"), "holds no lake yet", True),
    ):
        result = infrascope(*words)
        assert result.exit_code == 1
        *before, last = result.output.strip().splitlines()
        assert message in last
        assert "Traceback" not in result.output
        assert ("0 runs accepted, 0 files rejected" in before) is not refused
        assert (before == []) is refused


def test_a_second_call_does_only_what_is_new(tmp_path):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in range(1, 4):
        write_run(runs, second, burst=(200, 280) if second == 2 else None)
    infrascope("run", runs, "--data", data)
    folder = DataFolder(data)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in (data / "lake").rglob("*.parquet")}
    models = {t: folder.lake.read(t) for t in ("metric_catalog", "thresholds", "baselines")}
    write_run(runs, 9)
    result = infrascope("run", runs, "--data", data)
    assert result.exit_code == 0, result.output
    after = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in (data / "lake").rglob("*.parquet")}
    per_run = [p for p in before if p.parent != data / "lake"]
    assert all(after[p] == before[p] for p in per_run)
    assert all(folder.lake.read(t).equals(models[t]) for t in models)
    new = {p.parent.name for p in set(after) - set(before)}
    assert new == {"run_files", "telemetry", "faults", "metric_types", "quality_metrics", "curated_metrics",
                   "group_windows", "baskets", "window_features", "structural_changes", "anomaly_scores",
                   "anomaly_reasons", "level_offsets", "metric_deviations", "anomaly_episodes", "anomaly_report",
                   "phase_changes", "run_page"}  # fmt: skip
    infrascope("run", runs, "--data", data, "--refit")
    assert not folder.lake.read(BASELINES).equals(models["baselines"])
    assert folder.lake.read(BASELINES)["runs"].to_list() == [4]


def test_the_burst_is_found(tmp_path):
    runs, data = tmp_path / "runs", tmp_path / "data"
    for second in range(1, 6):
        path = write_run(runs, second, samples=600, burst=(300, 380) if second == 2 else None)
        if second == 2:
            labels = "start,end,fault,subsystem,metrics\n2026-11-01 10:00:32,2026-11-01 10:00:40,hog,CPU,\n"
            path.with_name(path.stem + ".faults.csv").write_text(labels)
    result = infrascope("run", runs, "--data", data)
    assert "known fault: hog" in result.output
    from infrascope_core.reports.summary import summarize

    worst = summarize(DataFolder(data)).episodes.row(0, named=True)
    assert (worst["run_key"], worst["subsystem"], worst["fault"]) == (run_name(2)[:-4], "CPU", "hog")
    mined = summarize(DataFolder(data)).mined.row(0, named=True)
    assert (mined["scope"], mined["runs"], mined["rules"]) == ("cpu", 5, 0)  # it happens in one run
    assert mined["tested"] > 100
    assert mined["why"] == "nothing that was tested holds in most runs"
