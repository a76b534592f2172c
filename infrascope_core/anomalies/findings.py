"""Findings beside the detectors' scores, of structure and of trends, in the tables of scores and reasons.

What belongs here: what a finding makes of the windows that it fills, and which structural changes are usual. How they
are found is in `structure` and `trends`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta

import polars as pl

from infrascope_core.anomalies.claims import wording
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES
from infrascope_core.contract import WINDOW_KEY
from infrascope_core.run_files.columns import family, subsystem

_USUAL_SHARE = 0.5
"""Share of the references that show a change from which on it is usual."""
_OF_FINDINGS = 0.5
"""Share of the evidence that findings have in a window that is anomalous by its scores as well."""

Kinds = Collection[tuple[str, str]]
"""Metrics, and what happens to them: `missing` or `still`."""

FINDINGS = pl.Schema(
    {
        "run_key": pl.String(),
        "host": pl.String(),
        "metric": pl.String(),
        "feature": pl.String(),
        "start_ts": pl.Datetime("us"),
        "end_ts": pl.Datetime("us"),
        "surprisal": pl.Float64(),
        "value": pl.Float64(),
        "expected": pl.Float64(),
        "claim": pl.String(),
    }
)
"""A metric, what is wrong with it, from when to when, and in words."""


def usual_kinds(of_references: Sequence[Kinds]) -> frozenset[tuple[str, str]]:
    """What happens to metrics in at least half of the references."""
    times = Counter(kind for kinds in of_references for kind in set(kinds))
    return frozenset(kind for kind, number in times.items() if number >= _USUAL_SHARE * len(of_references))


def structural_findings(changes: pl.DataFrame, usual: Kinds, window_length: timedelta) -> pl.DataFrame:
    """The findings that unusual structural changes are.

    Parameters
    ----------
    changes : polars.DataFrame
        Table `structural_changes`.
    usual : collection of (metric, kind)
        Changes that are no news.
    window_length : timedelta
        Length of a window: those that begin up to half of it before a change are filled by it by half.
    """
    rows = [
        {
            "value": 1.0,
            "expected": 0.0,
            **{name: row[name] for name in ("run_key", "host", "metric", "surprisal")},
            "feature": row["kind"],
            "start_ts": row["start_ts"] - window_length / 2,
            "end_ts": row["end_ts"] - window_length / 2,
            "claim": sentence(
                row["kind"],
                metric=row["metric"],
                seconds=f"{(row['end_ts'] - row['start_ts']).total_seconds():.3g}",
            ),
        }
        for row in changes.iter_rows(named=True)
        if (row["metric"], row["kind"]) not in usual
    ]
    return pl.DataFrame(rows, schema=FINDINGS)


def with_findings(
    scores: pl.DataFrame, reasons: pl.DataFrame, findings: pl.DataFrame, settings: DetectorSettings
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Raise an alarm in the windows of findings, and say why.

    Parameters
    ----------
    scores : polars.DataFrame
        Table `anomaly_scores` of one run; of a run that nothing judged, its windows are enough, the rest null.
    reasons : polars.DataFrame
        Table `anomaly_reasons` of the same windows.
    findings : polars.DataFrame
        `FINDINGS` of the run; a window belongs to one if it starts between its times.
    settings : DetectorSettings
        `reasons_per_window`.

    Returns
    -------
    tuple of polars.DataFrame
        Both tables. A window's surprisal is at least that of its findings. Of its evidence they have all, or half if
        the window is anomalous without them; each family of metrics as much as any other.
    """
    if findings.is_empty() or scores.is_empty():
        return scores, reasons
    affected = (
        scores.select(*WINDOW_KEY, "start_ts", "anomalous")
        .join_where(
            findings.select(pl.all().name.prefix("of_")),
            pl.col("host") == pl.col("of_host"),
            pl.col("start_ts") >= pl.col("of_start_ts"),
            pl.col("start_ts") <= pl.col("of_end_ts"),
        )
        .sort(*WINDOW_KEY, "of_metric")
    )
    raised = affected.group_by(WINDOW_KEY).agg(found=pl.col("of_surprisal").max())
    scores = (
        scores.join(raised, on=WINDOW_KEY, how="left", maintain_order="left")
        .with_columns(
            surprisal=pl.max_horizontal("surprisal", "found"),
            anomalous=pl.when(pl.col("found").is_not_null()).then(True).otherwise(pl.col("anomalous")),
        )
        .select(ANOMALY_SCORES.schema.names())
    )
    return scores, _reasons(scores, reasons, affected, settings)


def _reasons(
    scores: pl.DataFrame, reasons: pl.DataFrame, affected: pl.DataFrame, settings: DetectorSettings
) -> pl.DataFrame:
    """The table of reasons with those of findings ahead of the others, which share what is left."""
    also = pl.col("anomalous").fill_null(False)
    found = (
        affected.with_columns(
            subsystem=pl.col("of_metric").map_elements(subsystem, return_dtype=pl.String),
            family=pl.col("of_metric").map_elements(family, return_dtype=pl.String),
        )
        .unique([*WINDOW_KEY, "subsystem", "family"], keep="first", maintain_order=True)
        .with_columns(share=pl.when(also).then(_OF_FINDINGS).otherwise(1.0) / pl.len().over(WINDOW_KEY))
    )
    own = found.join(scores.select(*WINDOW_KEY, "flagged_by"), on=WINDOW_KEY, how="left").select(
        *WINDOW_KEY,
        "subsystem",
        "family",
        **{name: pl.col(f"of_{name}") for name in ("metric", "feature", "value", "expected", "claim")},
        detectors="flagged_by",
        contribution="share",
    )
    windows = found.select(*WINDOW_KEY, also.alias("also")).unique(WINDOW_KEY)
    others = (
        reasons.join(windows.filter("also"), on=WINDOW_KEY, how="semi")
        .with_columns(family=pl.col("metric").map_elements(family, return_dtype=pl.String))
        .join(own, on=[*WINDOW_KEY, "family"], how="anti")
        .with_columns(
            contribution=(1 - _OF_FINDINGS) * pl.col("contribution") / pl.col("contribution").sum().over(WINDOW_KEY)
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


def sentence(kind: str, **words: str) -> str:
    """The claim that a finding is, from `claims.yaml`."""
    return str(wording()["findings"][kind].format(**words))
