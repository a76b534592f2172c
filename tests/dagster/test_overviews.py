"""Pages in small: they show what the pages hold."""

from __future__ import annotations

import numpy as np
import pytest

from infrascope_core.pages.html import data_of
from infrascope_core.pages.products import index_file, page_file
from infrascope_core.pages.tables import FLEET_PAGE
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_dagster.links import ADDRESS
from infrascope_dagster.overviews import fleet_overview, run_overview
from infrascope_dagster.presentation import of_pooled

RUN = "train_MLPforImageClassification_Digits_2026-11-20T15-39-29_node01"


@pytest.fixture
def data(sample):
    return data_of(page_file(sample, RUN).read_text(encoding="utf-8"))


def test_a_run_is_its_surprisal_with_alarms_and_faults_and_its_first_charts(data):
    figure = run_overview(data)
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[0].startswith("surprisal")
    assert titles[1:] == [chart["metric"] for chart in data["charts"][:3]]
    (line,) = figure.axes[0].get_lines()
    assert np.size(line.get_xdata()) == 45  # windows of the run
    spans = {(patch.get_x(), patch.get_width()) for patch in figure.axes[0].patches}
    ((begin, end),) = data["ribbon"][0]["alarms"]
    (fault,) = data["faults"]
    expected = {(begin, end - begin), (fault["from"], fault["to"] - fault["from"])}
    assert {(round(a, 6), round(b, 6)) for a, b in spans} == {(round(a, 6), round(b, 6)) for a, b in expected}


def test_a_run_without_windows_has_no_picture(data):
    empty = [host | {"x": "", "surprisal": ""} for host in data["ribbon"]]
    assert run_overview(data | {"ribbon": empty}) is None


def test_the_fleet_is_its_worst_runs(sample):
    data = data_of(index_file(sample).read_text(encoding="utf-8"))
    (axes,) = fleet_overview(data).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    anomalous = [key for key in accepted(sample)["run_key"] if sample.lake.read(ANOMALY_REPORT, key)["episodes"][0]]
    assert {name.partition(": ")[2] for name in names} == set(anomalous)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(widths, reverse=True)
    assert fleet_overview(data | {"rows": []}) is None


def test_a_picture_of_all_runs_is_linked_where_pages_are_served_and_else_in_the_event(sample, tmp_path, monkeypatch):
    folder = DataFolder(tmp_path)
    index_file(folder).parent.mkdir()
    index_file(folder).write_bytes(index_file(sample).read_bytes())
    row = sample.lake.read(FLEET_PAGE)
    assert of_pooled(folder, FLEET_PAGE, row)["picture"].md_str.startswith("![picture](data:image/png;base64,")
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:3001")
    url = "http://127.0.0.1:3001/pictures/fleet_page/all.png"
    assert of_pooled(folder, FLEET_PAGE, row)["picture"].md_str == f"[![picture]({url})]({url})"
    assert (tmp_path / "pictures" / "fleet_page" / "all.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_no_page_has_no_data():
    with pytest.raises(ValueError, match="a page with a block of data"):
        data_of("<html></html>")
