"""What a person sees of a product in the UI: column schemas, row counts, previews, figures and pictures.

What belongs here: the one place in which these are chosen, by table. An event holds what is its partition's own, in a
few hundred bytes: pictures of runs are files in the data folder, reports are named by their path.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import matplotlib as mpl
import numpy as np
import polars as pl
import polars.selectors as cs
from matplotlib.figure import Figure

from infrascope_core.contract import Table
from infrascope_core.pages.html import data_of
from infrascope_core.patterns.rules import worth_reading
from infrascope_core.patterns.scopes import scopes
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.atomic import aside
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product
from infrascope_core.studies.window_agreement import example_timelines, hit_rates
from infrascope_dagster import links
from infrascope_dagster.overviews import fleet_overview, run_overview

mpl.use("agg")

PREVIEW_ROWS = 8
_RUN_PREVIEW_ROWS = 3
_RUN_PREVIEW_COLUMNS = 8
_LEVELS = {"LOW": "#9ecae1", "MED": "#4292c6", "HIGH": "#08306b"}
_MOST_PICTURES = 12
"""Runs of a batch up to which each gets a picture: drawing one takes as long as making the product."""
_MOST_PREVIEWS = 24
"""Runs of a batch up to which each shows its first rows: they double an event, and each event is stored twice."""

SHA256 = "sha256"
"""Metadata of a run file by which its record is told from that of another file of the same name."""

Facts = Callable[[DataFolder, pl.DataFrame], Mapping[str, Any]]
Draw = Callable[[DataFolder, pl.DataFrame], Figure | None]


def of_definition(graph: Graph, table: Table) -> dict[str, Any]:
    """Definition metadata: the columns of a table and what they come from, its name in the warehouse, links.

    Column lineage is the same for every partition, and so it is not repeated in their events.
    """
    columns = [dg.TableColumn(c.name, str(c.dtype), description=c.meaning) for c in table.columns]
    lineage = {
        column: [dg.TableColumnDep(dg.AssetKey(source), of) for source, of in sources]
        for column, sources in graph.column_lineage(table).items()
    }
    return {
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "dagster/column_lineage": dg.TableColumnLineage(lineage),
        "dagster/table_name": table.name,
        **links.of_table(graph.product(table), table.name),
    }


def tags(product: Product, table: Table) -> dict[str, str]:
    """What the UI can filter by: over which runs an asset is made, and what the warehouse holds of it."""
    copied = product.copied or not product.scope.per_run
    held = "nothing" if table.wide else "table" if copied else "view"
    return {"scope": product.scope.value.replace(" ", "_"), "warehouse": held}


def of_run(
    folder: DataFolder,
    product: Product,
    run_key: str,
    frames: Sequence[pl.DataFrame],
    batch: int,
    *,
    pictures: bool = True,
) -> dict[str, dict[str, Any]]:
    """Metadata by table name of what a product holds for one run.

    Parameters
    ----------
    folder : DataFolder
        Where it lies.
    product : Product
        The product.
    run_key : str
        The run.
    frames : sequence of polars.DataFrame
        The run's tables, those at the end perhaps left out.
    batch : int
        How many runs are made, or recorded, at once: pictures are drawn, and rows shown, of few.
    pictures : bool
        Whether to draw any.
    """
    found: dict[str, dict[str, Any]] = {table.name: {} for table in product.tables}
    for table, frame in zip(product.tables, frames, strict=False):
        shown = found[table.name]
        shown |= {"dagster/row_count": frame.height, **FACTS.get(table.name, _nothing)(folder, frame)}
        if table.key != ("run_key",) and batch <= _MOST_PREVIEWS:  # of one row, the facts are enough
            shown["preview"] = preview(frame.drop("run_key", strict=False)[:, :_RUN_PREVIEW_COLUMNS], _RUN_PREVIEW_ROWS)
        if table.name in PICTURES and pictures and batch <= _MOST_PICTURES and frame.height:
            figure = PICTURES[table.name](folder, frame)
            if figure is not None:
                figure.suptitle(run_key, fontsize=7)
                shown["picture"] = links.picture(folder, _saved(folder, table, run_key, figure))
    return found


def of_pooled(folder: DataFolder, table: Table, frame: pl.DataFrame) -> dict[str, Any]:
    """Metadata of a pooled product."""
    shown = {
        "dagster/row_count": frame.height,
        "preview": preview(frame),
        **FACTS.get(table.name, _nothing)(folder, frame),
    }
    figure = PICTURES[table.name](folder, frame) if table.name in PICTURES and frame.height else None
    if figure is not None:
        # of more than a few hundred bytes, the UI shows a link that has to be followed
        served = links.are_served()
        shown["picture"] = links.picture(folder, _saved(folder, table, "all", figure)) if served else _inline(figure)
    return shown


def shown_hash(sha256: str) -> str:
    """The beginning of a hash."""
    return sha256[:12]


def reason(text: str) -> dict[str, dg.MetadataValue]:
    """Why there is nothing, as metadata."""
    return {"reason": dg.MetadataValue.text(shortened(text))}


def shortened(text: str, length: int = 400) -> str:
    """A text that is short enough for an event."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def preview(frame: pl.DataFrame, rows: int = PREVIEW_ROWS) -> dg.MetadataValue:
    """The first rows as a markdown table; names and contents of files are shown, not interpreted."""
    frame = frame.head(rows).with_columns(cs.by_dtype(pl.List(pl.String)).list.join(" + "))
    frame = frame.with_columns(cs.string().str.replace_all(r"([\\`|<>!\[\]*_#])", r"\$1"))
    with pl.Config(
        tbl_formatting="ASCII_MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=rows,
        tbl_cols=-1,
        fmt_str_lengths=60,
        tbl_width_chars=10_000,
    ):
        return dg.MetadataValue.md(str(frame))


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return buffer.getvalue()


def _inline(figure: Figure) -> dg.MetadataValue:
    """A figure as a PNG inside markdown."""
    return dg.MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(_png(figure)).decode()})")


def _saved(folder: DataFolder, table: Table, of: str, figure: Figure) -> Path:
    """A figure of a run, or of all, as a file of the data folder."""
    target = folder.picture(table.name, of)
    with aside(target) as path:
        path.write_bytes(_png(figure))
    return target


def _nothing(folder: DataFolder, frame: pl.DataFrame) -> Mapping[str, Any]:
    return {}


def _run_file(folder: DataFolder, row: pl.DataFrame) -> Mapping[str, Any]:
    if row["samples"][0] is None:
        return {}
    whole = ("platform", "workload", "host", "samples", "metrics", "interval_s")
    size = {"megabytes": round(row["bytes"][0] / 1e6, 3), SHA256: shown_hash(row["sha256"][0])}
    return {**{name: row[name][0] for name in whole}, **size}


def _catalog(folder: DataFolder, catalog: pl.DataFrame) -> Mapping[str, Any]:
    counts: dict[str, Any] = {f"metrics {s}": n for s, n in catalog["status"].value_counts(sort=True).iter_rows()}
    classes = catalog["metric_class"].drop_nulls().value_counts(sort=True).iter_rows()
    return counts | {"classes": ", ".join(f"{n} {metric_class}" for metric_class, n in classes)}


def _curve(folder: DataFolder, curve: pl.DataFrame) -> Mapping[str, Any]:
    return {"workloads": curve.select("platform", "phase", "workload").n_unique() if curve.height else 0}


def _thresholds(folder: DataFolder, fitted: pl.DataFrame) -> Mapping[str, Any]:
    return {"degenerate": int(fitted["degenerate"].sum())}


def _baselines(folder: DataFolder, fitted: pl.DataFrame) -> Mapping[str, Any]:
    return {"windows": int(fitted["windows"].sum())}


def _itemsets(folder: DataFolder, itemsets: pl.DataFrame) -> Mapping[str, Any]:
    return {"scopes": itemsets["scope"].n_unique()}


def _rules(folder: DataFolder, rules: pl.DataFrame) -> Mapping[str, Any]:
    return {"strongest": preview(worth_reading(rules, PREVIEW_ROWS))}


def _hosts(folder: DataFolder, found: pl.DataFrame) -> Mapping[str, Any]:
    departing = found.filter("deviates")
    size = pl.col("robust_z").abs()
    worst = departing.sort("ambiguous", "jobs_deviating", size, "host", descending=[False, True, True, False])
    return {
        "jobs": found["job"].n_unique(),
        "deviations": departing.height,
        "hosts": ", ".join(departing["host"].unique().sort()),
        "worst": preview(worst.select("claim", "job")),
    }


def _report(folder: DataFolder, row: pl.DataFrame) -> Mapping[str, Any]:
    verdict, why, markdown = row.select("verdict", "why", "markdown").row(0)
    return {"verdict": shortened(f"{verdict}: {why}"), "report": links.to_data(folder, folder.root / markdown)}


def _page(folder: DataFolder, row: pl.DataFrame) -> Mapping[str, Any]:
    return {"page": links.to_data(folder, folder.root / row["page"][0])}


def _comparisons(folder: DataFolder, table: pl.DataFrame) -> Mapping[str, Any]:
    rows = table.select("comparison", "page").iter_rows()
    return {shortened(f"page of {name}"): links.to_data(folder, folder.root / page) for name, page in rows}


def _agreement(folder: DataFolder, table: pl.DataFrame) -> Mapping[str, Any]:
    return {"table_2": preview(hit_rates(table))}


def _similarity(folder: DataFolder, table: pl.DataFrame) -> Mapping[str, Any]:
    tested = table["similar"].drop_nulls()
    share = {"similar": float(tested.cast(pl.Float64).sum() / len(tested))} if len(tested) else {}
    return {"pairs": table.height, "tested": len(tested), **share}


FACTS: dict[str, Facts] = {
    "run_files": _run_file,
    "metric_catalog": _catalog,
    "pruning_curve": _curve,
    "thresholds": _thresholds,
    "baselines": _baselines,
    "frequent_itemsets": _itemsets,
    "association_rules": _rules,
    "host_deviations": _hosts,
    "anomaly_report": _report,
    "run_page": _page,
    "fleet_page": _page,
    "comparison_page": _comparisons,
    "window_agreement": _agreement,
    "run_similarity": _similarity,
}
"""Figures beside the row count and the preview, by table."""


def _widest_scope(folder: DataFolder, itemsets: pl.DataFrame) -> Figure:
    mined = set(itemsets["scope"].unique())
    return cooccurrence(itemsets, next(scope for scope in scopes(accepted(folder)) if scope in mined))


def _timelines(folder: DataFolder, table: pl.DataFrame) -> Figure | None:
    run_key, shown = example_timelines(folder, table)
    return interval_timelines(run_key, shown) if shown else None


def _data(folder: DataFolder, row: pl.DataFrame) -> dict[str, Any]:
    return data_of((folder.root / row["page"][0]).read_text(encoding="utf-8"))


PICTURES: dict[str, Draw] = {
    "run_page": lambda folder, row: run_overview(_data(folder, row)),
    "fleet_page": lambda folder, row: fleet_overview(_data(folder, row)),
    "baskets": lambda folder, baskets: level_shares(baskets),
    "anomaly_scores": lambda folder, scores: timeline(scores),
    "pruning_curve": lambda folder, curve: pruning(curve, folder.settings.selection.max_correlation),
    "frequent_itemsets": _widest_scope,
    "window_agreement": _timelines,
}
"""What is drawn, by table."""


def level_shares(baskets: pl.DataFrame) -> Figure:
    """Share of LOW, MED and HIGH windows per metric group."""
    shares = (
        baskets.group_by("metric_group", "level")
        .agg(n=pl.len())
        .with_columns(share=pl.col("n") / pl.col("n").sum().over("metric_group"))
        .pivot("level", index="metric_group", values="share")
        .fill_null(0.0)
        .sort("metric_group", descending=True)
    )
    figure = Figure(figsize=(6, 0.6 + 0.25 * shares.height), layout="constrained")
    axes = figure.subplots()
    left = np.zeros(shares.height)
    for level, colour in _LEVELS.items():
        if level in shares.columns:
            axes.barh(
                shares["metric_group"].to_list(),
                shares[level].to_numpy(),
                left=left,
                color=colour,
                label=level,
            )
            left = left + shares[level].to_numpy()
    axes.set_xlabel("share of windows")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=3, frameon=False)
    return figure


def cooccurrence(itemsets: pl.DataFrame, scope: str) -> Figure:
    """Support of every pair of items in a scope."""
    own = itemsets.filter(pl.col("scope") == scope)
    items = sorted(own.filter(pl.col("size") == 1)["items"].list.first())
    position = {item: i for i, item in enumerate(items)}
    support = np.zeros((len(items), len(items)))
    for (*names,), value in own.filter(pl.col("size") <= 2).select("items", "support").iter_rows():
        rows = [position[name] for name in names]
        support[rows[0], rows[-1]] = support[rows[-1], rows[0]] = value
    figure = Figure(figsize=(1.5 + 0.16 * len(items), 1.5 + 0.16 * len(items)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(support, cmap="Blues", vmin=0)
    axes.set_xticks(range(len(items)), items, rotation=90, fontsize=6)
    axes.set_yticks(range(len(items)), items, fontsize=6)
    axes.set_title(f"support of pairs, {scope}", fontsize=8)
    figure.colorbar(image, shrink=0.6, label="share of baskets that hold both")
    return figure


def pruning(curve: pl.DataFrame, max_correlation: float) -> Figure:
    """What metric selection keeps at each threshold, a faint line per workload and their mean (Reveal, figure 4)."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    measures = {
        "selected_ratio": ("selected ratio", "#2ca02c"),
        "mean_max_r": ("mean max |r|", "#1f77b4"),
        "multi_r2": ("mean multi-R² proxy", "#e6a700"),
    }
    for name, (label, colour) in measures.items():
        for _, own in sorted(curve.partition_by("platform", "phase", "workload", as_dict=True).items()):
            axes.plot(own["threshold"].to_numpy(), own[name].to_numpy(), color=colour, linewidth=0.5, alpha=0.4)
        mean = curve.group_by("threshold").agg(pl.mean(name)).sort("threshold")
        axes.plot(mean["threshold"].to_numpy(), mean[name].to_numpy(), color=colour, linewidth=1.8, label=label)
    axes.axvline(max_correlation, color="black", linestyle="--", linewidth=0.8)
    axes.set_xlabel("threshold on |r|")
    axes.set_ylabel("share, or coefficient")
    axes.set_ylim(0, 1)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    return figure


def timeline(scores: pl.DataFrame) -> Figure:
    """Severity over time, a line per run and host, and the threshold above which a window is flagged."""
    figure = Figure(figsize=(7, 2.5), layout="constrained")
    axes = figure.subplots()
    for (_, host), part in sorted(scores.partition_by("run_key", "host", as_dict=True).items()):
        seconds = (part["start_ts"] - part["start_ts"].min()).dt.total_milliseconds() / 1000
        axes.plot(seconds.to_numpy(), part["severity"].to_numpy(), linewidth=0.8, label=str(host))
    axes.axhline(1.0, color="black", linestyle="--", linewidth=0.8, label="threshold")
    axes.set_xlabel("seconds since the run's first window")
    axes.set_ylabel("severity")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=7)
    return figure


def interval_timelines(run_key: str, rows: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Anomaly intervals of a run in seconds since its start, a line per window and stride (Reveal, figure 6)."""
    figure = Figure(figsize=(7, 0.8 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, intervals in enumerate(rows.values()):
        axes.broken_barh([(start, end - start) for start, end in intervals], (place - 0.3, 0.6), color="#cb181d")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylabel("window/stride")
    axes.set_title(f"anomalous intervals, {run_key}", fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("seconds since the run's start")
    return figure
