"""The verdict on hosts: which departures are reported, in the light of all jobs, and the claim in words.

What belongs here: limits, what hosts usually differ by (`usual.yaml`), the odder of two hosts, and `claims.yaml`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl
import yaml

from infrascope_core.hosts.settings import HostSettings
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.store.lake import fingerprint

_DEPARTURE = ["platform", "host", "metric", "direction"]
"""Identifies a departure that may show in several jobs."""
_CLAIMED = ["deviates", "ambiguous", "steady", "metric", "host", "hosts", "value", "expected", "direction",
            "persistence", "jobs", "jobs_deviating"]  # fmt: skip
_DATA = (files(__package__) / "usual.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint("2", _DATA)
"""Raise the number when the same departures would be judged otherwise."""
_LIKE_OTHERS, _UNKNOWN, _ODD = 0, 1, 2


def judge(found: pl.DataFrame, jobs: pl.DataFrame, settings: HostSettings) -> pl.DataFrame:
    """Decide which deviations are reported, in the light of all jobs.

    Parameters
    ----------
    found : polars.DataFrame
        Results of `deviations` of all jobs, in any order; columns beyond those are ignored.
    jobs : polars.DataFrame
        All jobs (columns `jobs.JOBS`).
    settings : HostSettings
        `limit`, `persistence`, `least_relative`, `least_windows`.

    Returns
    -------
    polars.DataFrame
        Table `host_deviations`, by job, host and metric.

    Notes
    -----
    A host deviates if it is far from the others (robust z, relative difference, and more than hosts of one kind usually
    are apart: `usual.yaml`), persistently, in enough windows.
    Of two hosts each is as far from the other. Then their other jobs decide, those with at least one third host: a
    host that deviates in the same metric and direction in at least half of them is odd, one that does not is like
    the others, one that has none is unknown. The odder of the two is reported; if they are equals, both, marked
    `ambiguous`.
    """
    apart = (pl.col("value") - pl.col("expected")).abs()
    largest = pl.max_horizontal(pl.col("value").abs(), pl.col("expected").abs())
    share = pl.max_horizontal("usual_share", settings.least_relative)
    found = found.join(_usual(found["metric"].unique()), on="metric").with_columns(
        far=(pl.col("robust_z").abs() >= settings.limit)
        & (pl.col("persistence") >= settings.persistence)
        & (apart >= pl.max_horizontal("usually_apart", share * largest))
        & (pl.col("windows") >= settings.least_windows),
    )
    odd = _odder_of_two(found, jobs)
    compared = jobs.group_by("platform", "host").agg(jobs=pl.col("job").n_unique())
    judged = (
        found.join(odd, on=["job", "host", "metric"], how="left")
        .with_columns(
            deviates=pl.col("far") & pl.col("odder").fill_null(True),
            ambiguous=pl.col("far") & pl.col("ambiguous").fill_null(False),
        )
        .with_columns(jobs_deviating=pl.col("deviates").cast(pl.Int64).sum().over(_DEPARTURE))
        .join(compared, on=["platform", "host"], how="left")
        .sort("job", "host", "metric")
    )
    claims = [_claim(row) if row["deviates"] else None for row in judged.select(_CLAIMED).iter_rows(named=True)]
    return (
        judged.with_columns(claim=pl.Series(claims, dtype=pl.String))
        .select(HOST_DEVIATIONS.schema.names())
        .cast(HOST_DEVIATIONS.schema)
    )


def _odder_of_two(found: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """For each far row of two hosts: whether it is the odder one, or an equal; job, host, metric, odder, ambiguous."""
    pairs = found.filter(pl.col("far") & (pl.col("hosts") == 2)).select("job", *_DEPARTURE)
    others = found.filter(pl.col("hosts") == 2).select("job", "metric", peer="host")
    pairs = pairs.join(others, on=["job", "metric"]).filter(pl.col("peer") != pl.col("host"))
    # jobs with a third host: all of the host's but those with this one peer alone
    members = jobs.group_by("platform", "job").agg(pl.col("host").unique().sort()).explode("host", keep_nulls=True)
    members = members.with_columns(n=pl.len().over("platform", "job"))
    met = members.join(members.select("platform", "job", peer="host"), on=["platform", "job"])
    alone = met.filter((pl.col("n") == 2) & (pl.col("peer") != pl.col("host")))
    alone = alone.group_by("platform", "host", "peer").agg(alone=pl.len())
    all_jobs = members.group_by("platform", "host").agg(all_jobs=pl.len())
    far = found.filter("far").group_by(_DEPARTURE).agg(all_far=pl.len())
    far_alone = pairs.group_by(*_DEPARTURE, "peer").agg(far_alone=pl.len())
    status = (
        pairs.join(all_jobs, on=["platform", "host"], how="left")
        .join(alone, on=["platform", "host", "peer"], how="left")
        .join(far, on=_DEPARTURE, how="left")
        .join(far_alone, on=[*_DEPARTURE, "peer"], how="left")
        .with_columns(with_others=pl.col("all_jobs") - pl.col("alone").fill_null(0))
        .with_columns(
            oddness=pl.when(pl.col("with_others") <= 0)
            .then(_UNKNOWN)
            .when(2 * (pl.col("all_far") - pl.col("far_alone")) >= pl.col("with_others"))
            .then(_ODD)
            .otherwise(_LIKE_OTHERS)
        )
    )
    of_peer = status.select("job", "metric", peer="host", peer_oddness="oddness")
    return status.join(of_peer, on=["job", "metric", "peer"], how="left").select(
        "job",
        "host",
        "metric",
        odder=pl.col("oddness") >= pl.col("peer_oddness").fill_null(_UNKNOWN),
        ambiguous=pl.col("oddness") == pl.col("peer_oddness").fill_null(_UNKNOWN),
    )


def _usual(metrics: pl.Series) -> pl.DataFrame:
    """How far apart hosts usually are: metric, `usually_apart` (in its unit), `usual_share` (of the larger value)."""
    rules = [next((usual for pattern, *usual in _rules() if pattern.search(metric)), (0.0, 0.0)) for metric in metrics]
    columns = {"metric": pl.String, "usually_apart": pl.Float64, "usual_share": pl.Float64}
    return pl.DataFrame([(m, *usual) for m, usual in zip(metrics, rules, strict=True)], schema=columns, orient="row")


@cache
def _rules() -> tuple[tuple[re.Pattern[str], float, float], ...]:
    rules = yaml.safe_load(_DATA)
    return tuple(
        (re.compile(rule["pattern"], re.IGNORECASE), rule.get("apart", 0.0), rule.get("share", 0.0)) for rule in rules
    )


@cache
def _wording() -> dict[str, str]:
    text = (files(__package__) / "claims.yaml").read_text(encoding="utf-8")
    wording: dict[str, str] = yaml.safe_load(text)
    return wording


def _claim(row: dict[str, Any]) -> str:
    words, value, expected = _wording(), row["value"], row["expected"]
    times = words["times"].format(times=f"{value / expected:.3g}") if value * expected > 0 else ""
    others = words["one"] if row["hosts"] == 2 else words["several"].format(n=row["hosts"] - 1)
    sentence = words["sentence"].format(
        metric=row["metric"],
        host=row["host"],
        value=f"{value:.4g}",
        expected=f"{expected:.4g}",
        others=others,
        direction=row["direction"],
        times=times,
        persistence=f"{row['persistence']:.0%}",
    )
    if row["jobs"] > 1:
        sentence += words["jobs"].format(jobs=row["jobs"], jobs_deviating=row["jobs_deviating"])
    if row["steady"]:
        sentence += words["steady"]
    if row["ambiguous"]:
        sentence += words["ambiguous"]
    return sentence + "."
