"""Retransmissions: the workload's own, or a fault's (Reveal, section 6, injected packet loss).

What belongs here: the rule. Its classes of metrics and its limits stand in `retransmissions.yaml`.

The paper injects 0.1, 0.2 and 1 % packet loss and finds that neither the number of retransmissions nor the
throughput tells a fault from a bursty workload; what tells is what moves with them. At 0.1 % the utilisation of the
link jitters, at 0.2 % connections come and go, at 1 % interrupts and the cores' frequency swing. Retransmissions
"confined to workload traffic patterns" are the workload's own. The rule, over the windows of an episode that have
retransmissions among their reasons and the windows beside them:

1. Retransmissions hold less than `retransmissions_at_least` of the evidence: no judgement.
2. Side effects (connection churn, errors of the link; interrupts, frequency or load of the processor; power, load
   or clocks of the GPU) hold at least `side_effects_at_least`: fault-induced.
3. The course of the traffic changed (its spread, jitter, regularity) while its volume did not: fault-induced.
4. Otherwise, traffic in step with the retransmissions or nothing else at all: workload-intrinsic.

Storage and memory are not side effects: the paper names none, and a checkpoint sent over the network moves both.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl
import yaml

from infrascope_core.contract import EPISODE_KEY

FAULT_INDUCED = "fault-induced"
WORKLOAD_INTRINSIC = "workload-intrinsic"


def judge(evidence: pl.DataFrame) -> pl.DataFrame:
    """Tell workload-intrinsic from fault-induced retransmissions.

    Parameters
    ----------
    evidence : polars.DataFrame
        run_key, host, episode, window, metric, feature, weight: the reasons of the episodes' windows, and how much
        each counts (any non-negative unit).

    Returns
    -------
    polars.DataFrame
        run_key, host, episode, retransmissions, for the episodes that have them; sorted.
    """
    rule = _rule()
    classes = pl.DataFrame(
        [(metric, metric_class(metric)) for metric in evidence["metric"].unique().sort()],
        schema={"metric": pl.String, "class": pl.String},
        orient="row",
    )
    classified = evidence.join(classes, on="metric", how="left", maintain_order="left")
    near = (
        classified.filter(pl.col("class") == "retransmissions")
        .select(*EPISODE_KEY, pl.concat_list(pl.col("window") + step for step in (-1, 0, 1)).alias("window"))
        .explode("window", empty_as_null=False, keep_nulls=False)
        .unique()
    )
    of_class = pl.col("class")
    volume = pl.col("feature").is_in(rule["volume_features"])

    def share(which: pl.Expr) -> pl.Expr:
        return pl.col("weight").filter(which).sum() / pl.col("weight").sum()

    return (
        classified.join(near, on=[*EPISODE_KEY, "window"], how="semi")
        .group_by(EPISODE_KEY)
        .agg(
            retransmissions=share(of_class == "retransmissions"),
            side_effects=share(of_class.is_in(rule["side_effects"])),
            volume=share((of_class == "traffic") & volume),
            course=share((of_class == "traffic") & ~volume),
        )
        .filter(_at_least("retransmissions", rule["retransmissions_at_least"]))
        .select(
            *EPISODE_KEY,
            retransmissions=pl.when(
                _at_least("side_effects", rule["side_effects_at_least"])
                | (
                    _at_least("course", rule["jitter_at_least"])
                    & (pl.col("course") >= rule["jitter_over_volume"] * pl.col("volume"))
                )
            )
            .then(pl.lit(FAULT_INDUCED))
            .otherwise(pl.lit(WORKLOAD_INTRINSIC)),
        )
        .sort(EPISODE_KEY)
    )


def metric_class(metric: str) -> str | None:
    """The class of a metric in the rule, or None if it plays no part."""
    return next((name for name, patterns in _patterns() if any(p.search(metric) for p in patterns)), None)


def _at_least(share: str, limit: float) -> pl.Expr:
    # sums of shares miss a limit by rounding only
    return pl.col(share) >= limit - 1e-9


@cache
def _rule() -> dict[str, Any]:
    text = (files(__package__) / "retransmissions.yaml").read_text(encoding="utf-8")
    rule: dict[str, Any] = yaml.safe_load(text)
    return rule


@cache
def _patterns() -> tuple[tuple[str, tuple[re.Pattern[str], ...]], ...]:
    return tuple(
        (name, tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns))
        for name, patterns in _rule()["classes"].items()
    )
