"""What a person sees of an asset in the UI: column schemas, previews, small pictures."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import matplotlib as mpl
import numpy as np
import polars as pl
import polars.selectors as cs
from matplotlib.figure import Figure

from infrascope_core.pipeline import TABLES

mpl.use("agg")

PREVIEW_ROWS = 8
_LEVELS = {"LOW": "#9ecae1", "MED": "#4292c6", "HIGH": "#08306b"}


def column_schema(table: str) -> dict[str, Any]:
    """Definition metadata: the columns of a table of the contract."""
    columns = [dg.TableColumn(c.name, str(c.dtype), description=c.meaning) for c in TABLES[table].columns]
    return {"dagster/column_schema": dg.TableSchema(columns=columns)}


def preview(frame: pl.DataFrame) -> dg.MetadataValue:
    """The first rows as a markdown table; names and contents of files are shown, not interpreted."""
    frame = frame.head(PREVIEW_ROWS).with_columns(cs.by_dtype(pl.List(pl.String)).list.join(" + "))
    frame = frame.with_columns(cs.string().str.replace_all(r"([\\`|<>!\[\]*_#])", r"\$1"))
    with pl.Config(
        tbl_formatting="ASCII_MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=PREVIEW_ROWS,
        tbl_cols=-1,
        fmt_str_lengths=60,
        tbl_width_chars=10_000,
    ):
        return dg.MetadataValue.md(str(frame))


def picture(figure: Figure) -> dg.MetadataValue:
    """A figure as a PNG inside markdown."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return dg.MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})")


def of_table(frame: pl.DataFrame, **more: Any) -> Mapping[str, Any]:
    """Row count, preview and whatever else is said of a product."""
    return {"dagster/row_count": frame.height, "preview": preview(frame), **more}


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
    figure.colorbar(image, shrink=0.6)
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
    axes.set_ylim(0, 1)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    return figure


def timeline(scores: pl.DataFrame) -> Figure:
    """Severity over time, a line per run and host; the dashed line is the flag threshold."""
    figure = Figure(figsize=(7, 2.5), layout="constrained")
    axes = figure.subplots()
    for _, part in sorted(scores.partition_by("run_key", "host", as_dict=True).items()):
        seconds = (part["start_ts"] - part["start_ts"].min()).dt.total_milliseconds() / 1000
        axes.plot(seconds.to_numpy(), part["severity"].to_numpy(), linewidth=0.8)
    axes.axhline(1.0, color="black", linestyle="--", linewidth=0.8)
    axes.set_xlabel("seconds since the run's first window")
    axes.set_ylabel("severity")
    return figure


def interval_timelines(rows: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """Anomaly intervals in seconds since the run's start, a line per setting (Reveal, figure 6)."""
    figure = Figure(figsize=(7, 0.8 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, intervals in enumerate(rows.values()):
        axes.broken_barh([(start, end - start) for start, end in intervals], (place - 0.3, 0.6), color="#cb181d")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("seconds since the run's start")
    return figure
