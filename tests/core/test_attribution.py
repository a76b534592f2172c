"""Reasons and claims."""

import datetime as dt
from importlib.resources import files

import numpy as np
import polars as pl
import pytest
import yaml

from infrascope_core.attribution import reasons
from infrascope_core.baselines import fit_baseline, score
from infrascope_core.settings import DetectorSettings
from infrascope_core.tables import ANOMALY_REASONS, FEATURES, WINDOW_FEATURES

SETTINGS = DetectorSettings(trees=20, reasons_per_window=4)
START = dt.datetime(2025, 5, 7)
SUBSYSTEM = {"AverageCPUUtilization[%]": "CPU", "Memory:Dirty[kB]": "Memory"}.__getitem__


def features(windows: int = 300, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frames = [
        pl.DataFrame(
            {
                "run_key": "run",
                "host": "h",
                "window": np.arange(windows),
                "metric": metric,
                "start_ts": [START + dt.timedelta(seconds=i) for i in range(windows)],
                **{f: rng.normal(50, 5, windows) for f in FEATURES},
            },
            schema=WINDOW_FEATURES.schema,
        )
        for metric in ("AverageCPUUtilization[%]", "Memory:Dirty[kB]")
    ]
    return pl.concat(frames)


@pytest.fixture(scope="module")
def judged():
    """A baseline, and a run whose window 20 has a mean CPU utilisation of 98.1 and a low minimum of Dirty."""
    baseline = fit_baseline(features(), "gpu", "train", "MLP__Classification__default", SETTINGS)
    new = features(60, seed=1)

    def planted(metric, feature, value):
        at = (pl.col("window") == 20) & (pl.col("metric") == metric)
        return pl.when(at).then(pl.lit(value)).otherwise(feature).alias(feature)

    new = new.with_columns(planted("AverageCPUUtilization[%]", "mean", 98.1))
    new = new.with_columns(planted("Memory:Dirty[kB]", "minimum", 10.0))
    scores = score(baseline, new)
    return baseline, new, scores, reasons(baseline, new, scores, SUBSYSTEM, SETTINGS)


def test_only_flagged_windows_have_reasons_ranked_from_one(judged):
    _, _, scores, found = judged
    assert found.schema == ANOMALY_REASONS.schema
    flagged = scores.filter(pl.col("agreement") > 0)["window"].to_list()
    assert 20 in flagged
    assert found["window"].unique().sort().to_list() == flagged
    for _, window in found.group_by("window", maintain_order=True):
        assert window["rank"].to_list() == list(range(1, window.height + 1))
        assert window["contribution"].is_sorted(descending=True)
        assert 0 < window["contribution"].sum() <= 1 + 1e-9
        assert window.height <= 4
    assert found.filter(window=20)["detectors"][0].to_list() == scores.filter(window=20)["flagged_by"][0].to_list()


def test_the_planted_features_are_named_in_a_sentence(judged):
    baseline, _, _, found = judged
    first, second = found.filter(pl.col("window") == 20).head(2).to_dicts()
    assert (first["subsystem"], first["metric"], first["feature"]) == (
        "CPU",
        "AverageCPUUtilization[%]",
        "mean",
    )
    assert (second["subsystem"], second["metric"], second["feature"]) == (
        "Memory",
        "Memory:Dirty[kB]",
        "minimum",
    )
    place = baseline.names.index(("AverageCPUUtilization[%]", "mean"))
    usual, scale = baseline.moments.location[place], baseline.moments.scale[place]
    assert (first["value"], first["expected"]) == (98.1, usual)
    assert first["claim"] == (
        f"AverageCPUUtilization[%]: mean 98.1 is {(98.1 - usual) / scale:.1f} standard deviations above the "
        f"baseline of {usual:.4g} (train MLP__Classification__default): a higher level."
    )
    assert "below the baseline" in second["claim"]
    assert second["claim"].endswith(": a deeper drop.")


def test_contributions_are_the_mean_share_over_the_detectors_that_flag(judged):
    baseline, new, scores, _ = judged
    only = scores.filter(pl.col("window") == 20).with_columns(
        flagged_by=pl.Series([["zscore"]]), agreement=pl.lit(1, pl.Int64)
    )
    (first, *_) = reasons(baseline, new, only, SUBSYSTEM, SETTINGS).to_dicts()
    row = np.concatenate(
        [
            new.filter(window=20, metric=m).select(FEATURES).to_numpy()[0]
            for m in ("AverageCPUUtilization[%]", "Memory:Dirty[kB]")
        ]
    )
    z = np.abs((row - baseline.moments.location) / baseline.moments.scale)
    assert first["contribution"] == pytest.approx(z[0] / z.sum())


def test_without_flags_there_are_no_reasons(judged):
    baseline, new, scores, _ = judged
    calm = scores.with_columns(agreement=pl.lit(0, pl.Int64))
    assert reasons(baseline, new, calm, SUBSYSTEM, SETTINGS).equals(ANOMALY_REASONS.empty())


def test_every_feature_has_words_for_both_directions():
    words = yaml.safe_load((files("infrascope_core") / "recipes" / "claims.yaml").read_text())
    assert set(words["features"]) == set(FEATURES)
    assert all(set(w) == {"noun", "above", "below"} for w in words["features"].values())
