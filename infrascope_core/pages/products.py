"""Pages: one for every run and every declared comparison, and the index of all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl

from infrascope_core.anomalies.judging import beside_references
from infrascope_core.anomalies.reference_runs import baseline_version
from infrascope_core.anomalies.run_features import reanalysed_hosts, window_length
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, BASELINES, LEVEL_OFFSETS, WINDOW_FEATURES
from infrascope_core.comparing.figures import READ
from infrascope_core.comparing.products import rests_on, runs_of_declared
from infrascope_core.comparing.sides import Sides, compared_as_declared
from infrascope_core.comparing.tables import RUN_COMPARISONS
from infrascope_core.comparing.verdict import Outcome
from infrascope_core.numeric import Array
from infrascope_core.pages.comparison_content import OUTCOMES, comparison_view
from infrascope_core.pages.fleet_content import fleet_content, fleet_row
from infrascope_core.pages.html import CHART_LIBRARY, page, run_view
from infrascope_core.pages.run_content import RunTables, chosen_metrics, epoch, run_data
from infrascope_core.pages.tables import COMPARISON_PAGE, FLEET_PAGE, RUN_PAGE
from infrascope_core.recipes import recipe_of
from infrascope_core.reports.model import RunReport
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_PATTERNS, ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted, run_file
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES, TELEMETRY
from infrascope_core.store.atomic import write_text
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Part, Product, Scope, Tick
from infrascope_core.symbols.tables import BASKETS

_STAGE = "pages"
RUN_SCRIPTS = ("decode.js", "quantity.js", "charts.js", "strips.js", "run.js")
FLEET_SCRIPTS = ("fleet.js",)
INDEX = "index.html"


def page_file(folder: DataFolder, key: str) -> Path:
    """Where the page of a run lies."""
    return pages(folder) / "runs" / f"{folder.lake.path(RUN_PAGE, key).stem}.html"


def index_file(folder: DataFolder) -> Path:
    """Where the index lies."""
    return pages(folder) / INDEX


def pages(folder: DataFolder) -> Path:
    """The folder of all pages."""
    return folder.root / "pages"


def _run_page(folder: DataFolder, key: str) -> pl.DataFrame:
    lake, settings = folder.lake, folder.settings.pages
    times = {str(host): epoch(part["ts"]) for (host,), part in _sorted_hosts(lake.read(TELEMETRY, key, ["host", "ts"]))}
    tables = RunTables(
        times=times,
        scores=lake.read(ANOMALY_SCORES, key),
        reasons=lake.read(ANOMALY_REASONS, key),
        episodes=lake.read(ANOMALY_EPISODES, key),
        offsets=lake.read(LEVEL_OFFSETS, key),
        faults=lake.read(FAULTS, key),
        baskets=lake.read(BASKETS, key),
        window_s=window_length(folder, key).total_seconds(),
        beside=beside_references(folder, key),
    )
    chosen = chosen_metrics(tables, settings)
    traces = _traces(folder, key, chosen, times)
    data = run_data(tables, traces, recipe_of(folder), settings)
    _, as_data = report_files(folder, key)
    report = RunReport.model_validate_json(as_data.read_text(encoding="utf-8"))
    text = page(
        "run.html.jinja",
        (CHART_LIBRARY, *RUN_SCRIPTS),
        run_view(report, run_file(folder, key), recipe_of(folder)),
        data,
    )
    file = page_file(folder, key)
    write_text(file, text)
    row = (
        key,
        str(file.relative_to(folder.root)),
        len(text.encode()),
        len(data["charts"]),
        len(data["heat"]["metrics"]),
    )
    return pl.DataFrame([row], schema=RUN_PAGE.schema, orient="row")


def _sorted_hosts(telemetry: pl.DataFrame) -> list[tuple[tuple[object, ...], pl.DataFrame]]:
    return sorted(telemetry.partition_by("host", as_dict=True).items(), key=lambda pair: str(pair[0]))


def _traces(
    folder: DataFolder, key: str, chosen: Sequence[tuple[str, str]], times: dict[str, Array]
) -> dict[tuple[str, str], Array]:
    """Samples of each chosen host and metric; those that the run does not have are left out."""
    found = {}
    for host, part in reanalysed_hosts(folder, key, {metric for _, metric in chosen}):
        for of, metric in chosen:
            if of == host and metric in part.columns:
                values = part[metric].cast(pl.Float64).to_numpy().astype(np.float64)
                found[of, metric] = values[: len(times[host])]
    return {pair: found[pair] for pair in chosen if pair in found}


def _fleet_page(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    runs = accepted(folder).sort("run_key")
    rows = []
    for done, run in enumerate(runs.iter_rows(named=True), start=1):
        key = str(run["run_key"])
        report, scores = folder.lake.read(ANOMALY_REPORT, key), folder.lake.read(ANOMALY_SCORES, key)
        link = page_file(folder, key).relative_to(pages(folder))
        rows.append(fleet_row(run, report, scores, folder.lake.read(ANOMALY_EPISODES, key), link))
        tick(done, runs.height)
    view, data = fleet_content(rows, folder.lake.read(REJECTED_FILES), folder.lake.read(ANOMALY_PATTERNS))
    view["comparisons"] = _comparisons(folder)
    text, file = page("fleet.html.jinja", FLEET_SCRIPTS, view, data), index_file(folder)
    write_text(file, text)
    row = (str(file.relative_to(folder.root)), len(text.encode()), len(rows))
    return pl.DataFrame([row], schema=FLEET_PAGE.schema, orient="row")


# --- comparisons ---


def comparison_file(folder: DataFolder, name: str) -> Path:
    """Where the page of a comparison that the settings declare lies."""
    return pages(folder) / "comparisons" / f"{name}.html"


def write_comparison(folder: DataFolder, name: str, sides: Sides, file: Path) -> int:
    """Write the page of a comparison to a file, anywhere, and return its size in bytes.

    Raises
    ------
    StorageError
        The file cannot be written.
    """

    def address(other: Path) -> str:
        return quote(Path(os.path.relpath(other.absolute(), file.absolute().parent)).as_posix())

    view = comparison_view(name, sides, lambda key: address(page_file(folder, key)), address(index_file(folder)))
    text = page("comparison.html.jinja", (), view, {})
    write_text(file, text)
    return len(text.encode())


def _comparison_page(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    declared = folder.settings.comparisons.declared
    files = {one.name: comparison_file(folder, one.name) for one in declared}
    made = known.filter(pl.col("comparison").is_in([name for name, file in files.items() if file.is_file()]))
    current, rows = set(made["comparison"]), []
    for done, one in enumerate(declared, start=1):
        if one.name not in current:
            sides, file = compared_as_declared(folder, one), files[one.name]
            size = write_comparison(folder, one.name, sides, file)
            found, number = sides.comparison, (len(sides.before), len(sides.after))
            place = str(file.relative_to(folder.root))
            rows.append((one.name, found.outcome, found.sentence, *number, list(found.obstacles), place, size))
        tick(done, len(declared))
    for file in set(comparison_file(folder, "").parent.glob("*.html")) - set(files.values()):
        file.unlink(missing_ok=True)  # of comparisons that are declared no more
    return pl.concat([made, pl.DataFrame(rows, COMPARISON_PAGE.schema, orient="row")]).sort("comparison")


def _comparisons(folder: DataFolder) -> list[dict[str, str]]:
    """What the index says of comparisons."""
    return [
        {
            "name": row["comparison"],
            "link": quote(comparison_file(folder, row["comparison"]).relative_to(pages(folder)).as_posix()),
            "outcome": OUTCOMES[Outcome(row["outcome"])],
            "sentence": row["sentence"],
        }
        for row in folder.lake.read(COMPARISON_PAGE).iter_rows(named=True)
    ]


PRODUCTS = (
    Product(
        _STAGE,
        (RUN_PAGE,),
        Scope.PER_RUN,
        _run_page,
        inputs=(
            TELEMETRY,
            WINDOW_FEATURES,
            BASKETS,
            ANOMALY_SCORES,
            ANOMALY_REASONS,
            LEVEL_OFFSETS,
            ANOMALY_EPISODES,
            ANOMALY_REPORT,
            FAULTS,
            Part(BASELINES, baseline_version),
        ),
        settings=("pages", "features", "detectors"),
        depends_on=lambda folder, _: recipe_of(folder).model_dump_json(),
        files=lambda folder, key: [page_file(folder, key)],
        libraries=("html", "javascript"),
        decisions=(33,),
    ),
    Product(
        _STAGE,
        (COMPARISON_PAGE,),
        Scope.COMPARED,
        _comparison_page,
        inputs=READ,
        quotes=(RUN_COMPARISONS,),  # the same, figure by figure: both are made of the runs, unit by unit
        settings=("comparisons",),
        depends_on=rests_on,
        units=runs_of_declared,
        files=lambda folder, _: [comparison_file(folder, one.name) for one in folder.settings.comparisons.declared],
        libraries=("html",),
        decisions=(33, 35, 36),
    ),
    Product(
        _STAGE,
        (FLEET_PAGE,),
        Scope.GATHERED,
        _fleet_page,
        inputs=(ANOMALY_SCORES, ANOMALY_EPISODES, ANOMALY_REPORT, ANOMALY_PATTERNS, COMPARISON_PAGE, REJECTED_FILES),
        files=lambda folder, _: [index_file(folder)],
        libraries=("html", "javascript"),
        decisions=(33,),
    ),
)
