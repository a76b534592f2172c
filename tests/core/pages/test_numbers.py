"""Every number on the page of a run is that of its report and its tables."""

from __future__ import annotations

import base64
import json

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.run_features import reanalysed_hosts
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, METRIC_DEVIATIONS
from infrascope_core.pages.html import data_of
from infrascope_core.pages.packing import from_singles
from infrascope_core.pages.products import page_file
from infrascope_core.pages.run_content import epoch
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.runs import accepted, run_file
from infrascope_core.run_files.tables import FAULTS
from infrascope_core.symbols.tables import BASKETS
from tests.core.pages.handmade import run_tables

CELLS_A_SCALE = 25.4


def cells_of(packed: dict, rows: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["cells"]), dtype=np.uint8).reshape(rows, packed["columns"])


@pytest.fixture(params=["faulty", "healthy"])
def run(request, sample, faulty) -> str:
    verdicts = {
        key: json.loads(report_files(sample, key)[1].read_text())["verdict"] for key in accepted(sample)["run_key"]
    }
    return (
        faulty if request.param == "faulty" else next(key for key, verdict in verdicts.items() if verdict == "normal")
    )


@pytest.fixture
def data(sample, run) -> dict:
    return data_of(page_file(sample, run).read_text(encoding="utf-8"))


def test_charts_are_the_samples_and_what_was_expected_of_them(sample, run, data):
    ((_, samples),) = reanalysed_hosts(sample, run)
    deviations = sample.lake.read(METRIC_DEVIATIONS, run)
    (axis,) = data["axes"].values()
    np.testing.assert_allclose(from_singles(axis["x"]), epoch(samples["ts"]) - data["start"], atol=1e-3)
    assert len(data["charts"]) >= 8
    for chart in data["charts"]:
        values = samples[chart["metric"]].cast(pl.Float64).fill_null(np.nan).to_numpy()
        assert "high" not in chart["whole"]  # of a run of 48 s every sample is a point
        np.testing.assert_allclose(from_singles(chart["whole"]["low"]), values, rtol=1e-6)
        own = deviations.filter(metric=chart["metric"])
        assert (chart["expected"] is None) == own["expected_low"].is_null().all()
        if chart["expected"]:
            for end in ("low", "high"):
                np.testing.assert_allclose(from_singles(chart["expected"][end]), own[f"expected_{end}"], rtol=1e-6)


def test_the_ribbon_is_the_surprisal_of_windows_with_their_alarms(sample, run, data):
    scores = sample.lake.read(ANOMALY_SCORES, run)
    (ribbon,) = data["ribbon"]
    np.testing.assert_allclose(from_singles(ribbon["surprisal"]), scores["surprisal"], rtol=1e-6)
    at = from_singles(ribbon["x"])
    inside = np.zeros(len(at), dtype=bool)
    for begin, end in ribbon["alarms"]:
        inside |= (at > begin) & (at < end)
    assert inside.tolist() == scores["anomalous"].to_list()
    assert [fault["name"] for fault in data["faults"]] == sample.lake.read(FAULTS, run)["fault"].to_list()


def test_the_heat_map_is_every_deviation_at_its_time(sample, run, data):
    heat, deviations = data["heat"], sample.lake.read(METRIC_DEVIATIONS, run)
    assert sorted(heat["metrics"]) == sorted(deviations["metric"].unique())
    cells = cells_of(heat, len(heat["metrics"]))
    tables = run_tables(np.array([data["start"], data["end"]]), deviations=deviations)
    ((begin, end),) = tables.stretches.values()
    middle = ((begin + end) / 2 / (data["end"] - data["start"]) * heat["columns"]).astype(int)
    for row, metric in enumerate(heat["metrics"]):
        own = deviations.filter(metric=metric)["deviation"].fill_null(np.nan).to_numpy()
        expected = np.where(np.isnan(own), 255, np.minimum(CELLS_A_SCALE * own, 254))
        np.testing.assert_allclose(cells[row, middle], expected, atol=0.51)
        if not np.isnan(own).any():  # windows follow each other, and so do their cells
            assert (cells[row, middle[0] : middle[-1] + 1] < 255).all()


def test_strips_are_shares_flags_and_levels(sample, run, data):
    scores, reasons = sample.lake.read(ANOMALY_SCORES, run), sample.lake.read(ANOMALY_REASONS, run)
    strips, alarms = data["strips"], scores.filter("anomalous")
    shares = reasons.join(alarms, on=["run_key", "host", "window"], how="semi")
    assert set(strips["subsystems"]["names"]) == set(shares["subsystem"])
    names = strips["subsystems"]["names"]
    for row, name in zip(cells_of(strips["subsystems"], len(names)), names, strict=True):
        largest = shares.filter(subsystem=name)["subsystem_share"].max()
        assert row[row < 255].max() == pytest.approx(254 * largest, abs=0.51)
    flagged = scores.explode("flagged_by").drop_nulls("flagged_by")
    assert strips["detectors"]["names"] == flagged["flagged_by"].unique().sort().to_list()
    baskets = sample.lake.read(BASKETS, run)
    levels = cells_of(strips["levels"], len(strips["levels"]["names"]))
    for row, (_, own) in zip(levels, sorted(baskets.partition_by("metric_group", as_dict=True).items()), strict=True):
        height = {"LOW": 0, "MED": 127, "HIGH": 254}
        assert set(row[row < 255]) == {height[level] for level in own["level"].drop_nulls()}


def test_text_is_the_reports(sample, run, data, visit):
    report = json.loads(report_files(sample, run)[1].read_text())
    page = visit(page_file(sample, run))
    assert page.locator("h1").text_content() == report["run_key"]
    assert page.locator(".why").text_content() == report["why"]
    shown = page.locator(".episodes > li").all()
    assert len(shown) == len(report["episodes"]) == sample.lake.read(ANOMALY_EPISODES, run).height
    for item, episode in zip(shown, report["episodes"], strict=True):
        begin, end, peak = (episode[name][11:19] for name in ("start", "end", "peak"))
        assert item.locator(".when").text_content() == f"{begin} to {end}"
        assert item.locator(".to").text_content().endswith(peak)
        blame = ", ".join(f"{part['subsystem']} {part['share']:.0%}" for part in episode["subsystems"])
        assert item.locator(".blame").text_content() == blame
    rows = [
        row.locator("td").all_text_contents() for row in page.locator("section[aria-labelledby=h-table] tbody tr").all()
    ]
    assert rows == [
        [
            str(row["window"]), row["start"][11:19], ", ".join(row["methods"]), f"{row['surprisal']:.2f}",
            row["subsystem"], "; ".join(f"{r['metric']} – {r['feature']}" for r in row["reasons"]), row["claim"],
        ]
        for row in report["table"]
    ]  # fmt: skip
    file = run_file(sample, run)
    facts = dict(zip(page.locator("dt").all_text_contents(), page.locator("dd").all_text_contents(), strict=True))
    assert facts["SHA-256"] == file["sha256"]
    assert facts["Samples"] == f"{file['samples']} of {file['metrics']} metrics"
    windows = f"{report['windows']}, {report['judged_windows']} judged, {report['anomalous_windows']} anomalous"
    assert facts["Windows"] == windows


def test_figures_beside_the_heat_map_are_the_largest_of_each_family(sample, run, data, visit):
    page = visit(page_file(sample, run))
    page.locator("#unfold-all").click()
    names, figures = (page.locator(f"#heat .{kind}").all_text_contents() for kind in ("name", "figure"))
    shown = dict(zip(names, figures, strict=True))
    largest = sample.lake.read(METRIC_DEVIATIONS, run).group_by("metric").agg(pl.col("deviation").max())
    for metric, deviation in largest.iter_rows():
        if deviation is None:
            assert shown[metric] == "not known"
        elif shown[metric] == "10+":
            assert deviation > 9.9
        else:
            assert float(shown[metric]) == pytest.approx(deviation, abs=0.08)  # a cell is 1/25.4 of a scale
