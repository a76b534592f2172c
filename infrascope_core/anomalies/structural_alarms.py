"""Alarms on structure: windows in which metrics vanish or stand still, in the tables of scores and reasons.

What belongs here: which structural changes are usual for the run's references, and what the others make of a window.
How they are found is in `structure`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import cache
from importlib.resources import files

import polars as pl
import yaml

from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.run_files.columns import family, subsystem

_USUAL_SHARE = 0.5
"""Share of the references that show a change from which on it is usual."""
_OF_STRUCTURE = 0.5
"""Share of the evidence that structure has in a window that is anomalous by its values as well."""

Kinds = Collection[tuple[str, str]]
"""Metrics, and what happens to them: `missing` or `still`."""


def usual_kinds(of_references: Sequence[Kinds]) -> frozenset[tuple[str, str]]:
    """What happens to metrics in at least half of the references."""
    times = Counter(kind for kinds in of_references for kind in set(kinds))
    return frozenset(kind for kind, number in times.items() if number >= _USUAL_SHARE * len(of_references))


def with_structure(
    scores: pl.DataFrame,
    reasons: pl.DataFrame,
    changes: pl.DataFrame,
    *,
    window_length: timedelta,
    usual: Kinds,
    settings: DetectorSettings,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Raise an alarm in the windows that unusual structural changes fill by half, and say why.

    Parameters
    ----------
    scores : polars.DataFrame
        Table `anomaly_scores` of one run; of a run that nothing judged, its windows are enough, the rest null.
    reasons : polars.DataFrame
        Table `anomaly_reasons` of the same windows.
    changes : polars.DataFrame
        Table `structural_changes` of the run.
    window_length : timedelta
        Length of a window.
    usual : collection of (metric, kind)
        Changes that are no news.
    settings : DetectorSettings
        `reasons_per_window`.

    Returns
    -------
    tuple of polars.DataFrame
        Both tables. A changed window's surprisal is at least that of its changes. Of its evidence they have all, or
        half if the window is anomalous without them; each family of metrics as much as any other.
    """
    if changes.is_empty() or scores.is_empty():
        return scores, reasons
    news = changes.filter(
        pl.struct("metric", "kind").map_elements(
            lambda change: (change["metric"], change["kind"]) not in usual, return_dtype=pl.Boolean
        )
    )
    if news.is_empty():
        return scores, reasons
    middle = pl.col("start_ts") + window_length / 2
    affected = (
        scores.select(*WINDOW_KEY, "start_ts", "anomalous", middle=middle)
        .join_where(
            news.select(pl.all().name.prefix("of_")),
            pl.col("host") == pl.col("of_host"),
            pl.col("middle") >= pl.col("of_start_ts"),
            pl.col("middle") <= pl.col("of_end_ts"),
        )
        .sort(*WINDOW_KEY, "of_metric")
    )
    raised = affected.group_by(WINDOW_KEY).agg(structural=pl.col("of_surprisal").max())
    scores = (
        scores.join(raised, on=WINDOW_KEY, how="left", maintain_order="left")
        .with_columns(
            surprisal=pl.max_horizontal("surprisal", "structural"),
            anomalous=pl.when(pl.col("structural").is_not_null()).then(True).otherwise(pl.col("anomalous")),
        )
        .select(ANOMALY_SCORES.schema.names())
    )
    return scores, _reasons(scores, reasons, affected, settings)


def _reasons(
    scores: pl.DataFrame, reasons: pl.DataFrame, affected: pl.DataFrame, settings: DetectorSettings
) -> pl.DataFrame:
    """The table of reasons with those of structure ahead of the others, which share what is left."""
    lasting = (pl.col("of_end_ts") - pl.col("of_start_ts")).dt.total_microseconds() / 1e6
    structural = (
        affected.with_columns(
            subsystem=pl.col("of_metric").map_elements(subsystem, return_dtype=pl.String),
            family=pl.col("of_metric").map_elements(family, return_dtype=pl.String),
            lasting=lasting,
        )
        .unique([*WINDOW_KEY, "subsystem", "family"], keep="first", maintain_order=True)
        .with_columns(
            share=pl.when(pl.col("anomalous").fill_null(False)).then(_OF_STRUCTURE).otherwise(1.0)
            / pl.len().over(WINDOW_KEY)
        )
    )
    own = structural.join(scores.select(*WINDOW_KEY, "flagged_by"), on=WINDOW_KEY, how="left").select(
        *WINDOW_KEY,
        "subsystem",
        "family",
        metric="of_metric",
        feature="of_kind",
        detectors="flagged_by",
        value=pl.lit(1.0),
        expected=pl.lit(0.0),
        contribution="share",
        claim=pl.struct("of_metric", "of_kind", "lasting").map_elements(_claim, return_dtype=pl.String),
    )
    windows = structural.select(*WINDOW_KEY, "anomalous").unique(WINDOW_KEY)
    others = (
        reasons.join(windows.filter(pl.col("anomalous").fill_null(False)), on=WINDOW_KEY, how="semi")
        .with_columns(family=pl.col("metric").map_elements(family, return_dtype=pl.String))
        .join(own, on=[*WINDOW_KEY, "family"], how="anti")
        .with_columns(
            contribution=(1 - _OF_STRUCTURE) * pl.col("contribution") / pl.col("contribution").sum().over(WINDOW_KEY)
        )
        .select(own.columns)
    )
    merged = (
        pl.concat([own, others], how="vertical_relaxed")
        .with_columns(contribution=pl.col("contribution") / pl.col("contribution").sum().over(WINDOW_KEY))
        .with_columns(subsystem_share=pl.col("contribution").sum().over(*WINDOW_KEY, "subsystem"))
        .sort(*WINDOW_KEY, "contribution", "metric", descending=[False, False, False, True, False])
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over(WINDOW_KEY))
        .filter(pl.col("rank") <= settings.reasons_per_window)
        .select(ANOMALY_REASONS.schema.names())
        .cast(ANOMALY_REASONS.schema)
    )
    untouched = reasons.join(windows, on=WINDOW_KEY, how="anti")
    return pl.concat([untouched, merged]).sort(*WINDOW_KEY, "rank")


@cache
def _wording() -> dict[str, str]:
    wording = yaml.safe_load((files(__package__) / "claims.yaml").read_text(encoding="utf-8"))
    sentences: dict[str, str] = wording["structure"]
    return sentences


def _claim(change: dict[str, str]) -> str:
    sentence: str = _wording()[change["of_kind"]].format(metric=change["of_metric"], seconds=f"{change['lasting']:.3g}")
    return sentence
