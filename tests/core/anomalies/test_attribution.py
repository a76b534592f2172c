"""Reasons and claims: what is named, how evidence is shared, and how claims are worded."""

import datetime as dt
from importlib.resources import files

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from infrascope_core.anomalies.attribution import Metrics, evidence, reasons
from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.fitting import fit_baseline
from infrascope_core.anomalies.residuals import Residuals
from infrascope_core.anomalies.scoring import score
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import ANOMALY_REASONS, FEATURES, STORED_FEATURES, WINDOW_FEATURES

SETTINGS = DetectorSettings(trees=20, reasons_per_window=4)
START = dt.datetime(2025, 5, 7)
CPU, CORES, DIRTY, LINK = (
    "CPU:load",
    ("CPU:CPU0Utilization[%]", "CPU:CPU1Utilization[%]"),
    "Memory:AnonPages[kB]",
    "Network:link.width[count]",
)
METRICS = (CPU, *CORES, DIRTY, LINK)


def features(run: str, windows: int = 60, seed: int = 0) -> pl.DataFrame:
    """Four metrics at random, and a link that is 16 lanes wide throughout."""
    rng = np.random.default_rng(seed)
    frames = []
    for metric in METRICS:
        values = {f: rng.normal(50, 5, windows) for f in FEATURES}
        values.pop("variance")
        if metric == LINK:
            values = dict.fromkeys(STORED_FEATURES) | {"maximum": np.full(windows, 16.0)}
        index = {
            "run_key": run,
            "host": "h",
            "window": np.arange(windows),
            "windows": 1,
            "samples": 30,
            "metric": metric,
        }
        start = [START + dt.timedelta(seconds=i) for i in range(windows)]
        frames.append(pl.DataFrame({**index, "start_ts": start, **values}, schema=WINDOW_FEATURES.schema))
    return pl.concat(frames)


def fitted(runs: int) -> Baseline:
    table = pl.concat([features(f"r{i}", seed=i) for i in range(runs)])
    baseline = fit_baseline(table, "gpu", "train", "MLP", SETTINGS)
    assert baseline is not None
    return baseline


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return fitted(4)


def planted(table: pl.DataFrame, first: int, last: int, metric: str, **values: float | None) -> pl.DataFrame:
    """The table with other values of some features of a metric, from one window to another."""
    where = pl.col("window").is_between(first, last) & (pl.col("metric") == metric)
    return table.with_columns(
        pl.when(where).then(pl.lit(v, pl.Float32)).otherwise(f).alias(f) for f, v in values.items()
    )


def found(baseline: Baseline, new: pl.DataFrame, settings: DetectorSettings = SETTINGS) -> pl.DataFrame:
    residuals = baseline.judge(new)
    return reasons(baseline, residuals, score(baseline, residuals), settings)


NAMES = (
    ("CPU:CPU0Utilization[%]", "maximum"),
    ("CPU:CPU0Utilization[%]", "mean"),
    ("CPU:CPU1Utilization[%]", "mean"),
    ("CPU:load", "mean"),
    ("Memory:AnonPages[kB]", "mean"),
    ("Memory:AnonPages[kB]", "missing"),
)


class TestShares:
    """Two cores are one family; the CPU has two families, memory has one."""

    metrics = Metrics.of(NAMES)
    evidence = np.array([[1.0, 2.0, 5.0, 1.0, 3.0, 1.0], [2.0, 2.0, 0.0, 0.0, 0.0, 0.0]])

    def test_a_familys_share_is_that_of_the_metric_which_leads_it(self):
        share, strongest = self.metrics.by_family(self.evidence)
        # by metric 3, 5, 1, 4: the second core leads the cores with 5 of 5 + 1 + 4
        np.testing.assert_allclose(share, [[0.5, 0.1, 0.4], [1.0, 0, 0]])
        assert strongest.tolist() == [[1, 2, 3], [0, 2, 3]]

    def test_a_subsystem_has_the_sum_of_its_three_strongest(self):
        share, _ = self.metrics.by_family(self.evidence)
        assert self.metrics.by_subsystem(share) == pytest.approx(np.array([[0.6, 0.6, 0.4], [1, 1, 0]]))
        many = Metrics.of([*((f"CPU:m{letter}", "mean") for letter in "abcdef"), ("Memory:free", "mean")])
        share, _ = many.by_family(np.array([[4.0, 1.0, 2.0, 1.0, 3.0, 1.0, 8.0]]))
        # 4 + 3 + 2 of the CPU's 12, and 8
        assert many.by_subsystem(share)[0].tolist() == pytest.approx([9 / 17] * 6 + [8 / 17])

    def test_the_leading_feature_is_the_one_with_most(self):
        rows, of = np.array([0, 0, 0, 1]), np.array([0, 1, 3, 0])
        assert self.metrics.leading_feature(self.evidence, rows, of).tolist() == [1, 2, 4, 0]

    def test_metrics_of_one_name_in_two_subsystems_are_two_families(self):
        metrics = Metrics.of((("Derived:L3StallRatio[%]", "mean"), ("Derived:L2StallRatio[%]", "mean")))
        assert sorted(metrics.subsystem) == ["CPU", "Other"]
        share, _ = metrics.by_family(np.array([[1.0, 3.0]]))
        assert share.tolist() == [[0.25, 0.75]]

    @given(arrays(np.float64, (3, len(NAMES)), elements=st.floats(0, 100)))
    def test_shares_sum_to_one_over_families_and_over_subsystems_or_are_zero(self, by_feature):
        share, strongest = self.metrics.by_family(by_feature)
        any_evidence = by_feature.any(axis=1).astype(float)
        np.testing.assert_allclose(share.sum(axis=1), any_evidence, atol=1e-9)
        of_subsystem = self.metrics.by_subsystem(share)
        np.testing.assert_allclose(of_subsystem[:, 1:].sum(axis=1), any_evidence, atol=1e-9)
        assert (of_subsystem[:, 0] == of_subsystem[:, 1]).all()
        assert np.isin(strongest[:, 0], [0, 1]).all()


class TestEvidence:
    @staticmethod
    def of(baseline: Baseline, residuals: Residuals) -> np.ndarray:
        return evidence(baseline, residuals, baseline.departures(baseline.scores(residuals), residuals.windows))

    def test_where_metrics_are_out_of_their_range_it_is_by_how_much(self, baseline):
        new = planted(features("new", seed=9), 20, 39, DIRTY, mean=500.0, median=500.0)
        residuals = baseline.judge(planted(new, 25, 39, LINK, maximum=8.0))
        metrics = baseline.single_metrics
        ratio = metrics.ratios(residuals.brief)
        out = (ratio > 1).any(axis=1)
        assert out[22:40].all()
        by_metric = np.add.reduceat(self.of(baseline, residuals), metrics.starts, axis=1)[out]
        # in logarithms: what never moved is soon far out
        np.testing.assert_allclose(by_metric, np.log(np.maximum(ratio, 1))[out], atol=1e-12)

    def test_side_effects_count_less(self):
        switches = "ContextSwitches_diff:total[count]"
        table = pl.concat([features(f"r{i}", seed=i) for i in range(4)])
        table = pl.concat([table, table.filter(metric=DIRTY).with_columns(metric=pl.lit(switches))])
        baseline = fit_baseline(table, "gpu", "train", "MLP", SETTINGS)
        assert baseline is not None
        new = pl.concat(
            [new := features("new", seed=9), new.filter(metric=DIRTY).with_columns(metric=pl.lit(switches))]
        )
        for metric in (DIRTY, switches):
            new = planted(new, 20, 39, metric, mean=500.0, median=500.0)
        residuals = baseline.judge(new)
        by_feature = self.of(baseline, residuals)[30]
        share = {name: by_feature[[metric == name for metric, _ in baseline.names]].sum() for name in (DIRTY, switches)}
        assert share[switches] == pytest.approx(0.3 * share[DIRTY], rel=0.1)

    def test_elsewhere_what_the_other_detectors_argue_weighted_by_how_far_they_depart(self, baseline):
        residuals = baseline.judge(features("new", seed=9))
        weights = np.zeros((residuals.windows.height, 5))
        weights[:, 0] = 2.0
        argued = evidence(baseline, residuals, weights)
        calm = (baseline.single_metrics.ratios(residuals.brief) < 1).all(axis=1)
        assert calm.sum() > 20
        z = np.abs(np.nan_to_num(residuals.instant))[calm]
        np.testing.assert_allclose(argued[calm], 2 * z / z.sum(axis=1, keepdims=True))

    def test_and_where_none_departs_what_sustained_deviation_contributes(self, baseline):
        residuals = baseline.judge(features("new", seed=9))
        calm = np.flatnonzero((baseline.single_metrics.ratios(residuals.brief) < 1).all(axis=1))[:1]
        at = residuals.rows(calm)
        share = evidence(baseline, at, np.zeros((1, 5)))
        own = sum(d.explain(at.of_kind(d.sees)) for d in baseline.detectors[3:])
        known = ~np.isnan(at.instant)
        np.testing.assert_allclose(share, np.where(known, own, 0.0))


@pytest.fixture(scope="module")
def case(baseline):
    """A run whose windows 20 to 39 have a mean load of 98.1 and, less so, a low minimum of dirty pages."""
    new = planted(features("new", seed=9), 20, 39, CPU, mean=98.1)
    new = planted(new, 20, 39, DIRTY, minimum=30.0)
    scores = score(baseline, baseline.judge(new))
    return new, scores, reasons(baseline, baseline.judge(new), scores, SETTINGS)


class TestReasons:
    def test_windows_that_are_flagged_or_anomalous_have_reasons_and_no_others(self, case, baseline):
        new, scores, given = case
        assert given.schema == ANOMALY_REASONS.schema
        assert (
            given["window"].unique().to_list()
            == scores.filter((pl.col("agreement") > 0) | pl.col("anomalous"))["window"].to_list()
        )
        assert set(range(25, 40)) <= set(given["window"])
        alarm = scores.with_columns(anomalous=pl.col("window") == 3, agreement=0)
        assert reasons(baseline, baseline.judge(new), alarm, SETTINGS)["window"].unique().to_list() == [3]
        flag = scores.with_columns(anomalous=False, agreement=(pl.col("window") == 4).cast(pl.Int64))
        assert reasons(baseline, baseline.judge(new), flag, SETTINGS)["window"].unique().to_list() == [4]
        calm = scores.with_columns(anomalous=False, agreement=0)
        assert reasons(baseline, baseline.judge(new), calm, SETTINGS).equals(ANOMALY_REASONS.empty())

    def test_they_are_ranked_one_a_family_and_no_more_than_asked_for(self, case, baseline):
        new, scores, given = case
        for (window,), of in given.group_by("window", maintain_order=True):
            assert of["rank"].to_list() == list(range(1, of.height + 1))
            assert of["contribution"].is_sorted(descending=True)
            assert 0 < of["contribution"].min()
            assert of["contribution"].sum() == pytest.approx(1)  # there are no more than four families
            assert of["metric"].is_in(CORES).sum() <= 1
            assert of["detectors"][0].to_list() == scores.filter(window=window)["flagged_by"][0].to_list()
            shares = of.unique("subsystem")["subsystem_share"]
            assert shares.sum() == pytest.approx(1)
        two = reasons(baseline, baseline.judge(new), scores, DetectorSettings(trees=20, reasons_per_window=2))
        assert two.equals(given.filter(pl.col("rank") <= 2))

    def test_the_order_of_rows_does_not_matter(self, case, baseline):
        new, scores, given = case
        rows = new.sample(fraction=1, shuffle=True, seed=1)
        shuffled = reasons(baseline, baseline.judge(rows), scores.reverse(), SETTINGS)
        assert shuffled.equals(given)

    def test_the_planted_features_are_named_in_a_sentence(self, case, baseline):
        new, _, given = case
        first, second = given.filter(window=35).head(2).to_dicts()
        assert (first["subsystem"], first["metric"], first["feature"]) == ("CPU", CPU, "mean")
        assert (second["subsystem"], second["metric"], second["feature"]) == ("Memory", DIRTY, "minimum")
        residuals, place = baseline.judge(new), baseline.names.index((CPU, "mean"))
        usual, scales = residuals.expected[35, place], residuals.instant[35, place]
        assert (first["value"], first["expected"]) == (pytest.approx(98.1), usual)
        assert scales == pytest.approx((98.1 - usual) / baseline.moments.scale[place])
        assert first["claim"] == (
            f"{CPU}: mean 98.1 instead of {usual:.3g} ({scales:.1f} standard deviations above): a higher level."
        )
        assert second["claim"].startswith(f"{DIRTY}: minimum 30 kB instead of ")
        assert second["claim"].endswith(" standard deviations below): a deeper drop.")

    def test_cores_that_move_together_are_one_reason(self, baseline):
        new = features("new", seed=9)
        for core, level in zip(CORES, (90.0, 95.0), strict=True):
            new = planted(new, 20, 39, core, mean=level, median=level, maximum=level)
        at = found(baseline, new).filter(window=35)
        assert at["metric"].is_in(CORES).sum() == 1
        assert at["metric"][0] in CORES

    def test_a_level_that_never_moved_is_a_novelty(self, baseline):
        new = planted(features("new", seed=9), 20, 39, LINK, maximum=8.0)
        (first, *_) = found(baseline, new).filter(window=35).to_dicts()
        assert (first["metric"], first["feature"], first["value"], first["expected"]) == (LINK, "maximum", 8, 16)
        assert first["claim"] == (f"{LINK}: maximum 8, where it was 16 throughout: a lower ceiling.")

    def test_metrics_that_no_longer_arrive_are_missing(self, baseline):
        new = features("new", seed=9).filter(~pl.col("metric").is_in([DIRTY, LINK]) | (pl.col("window") < 20))
        first, second = found(baseline, new).filter(window=35).head(2).to_dicts()
        assert {first["metric"], second["metric"]} == {DIRTY, LINK}
        assert (first["feature"], first["value"], first["expected"]) == ("missing", 1, 0)
        assert first["claim"].endswith(": missing (1 is yes) 1, where it was 0 throughout: no value arrives.")

    def test_a_metric_that_no_longer_moves_is_still(self, baseline):
        new = features("new", seed=9)
        level = new.filter(metric=DIRTY)["maximum"].median()
        assert isinstance(level, float)
        new = planted(new, 20, 39, DIRTY, maximum=level, standard_deviation=0.0)
        (first, *_) = found(baseline, new).filter(window=35).to_dicts()
        assert (first["metric"], first["feature"], first["value"]) == (DIRTY, "still", 1)
        assert first["claim"].endswith("where it was 0 throughout: the signal does not move.")

    def test_the_average_of_a_feature_that_is_gone_is_not_the_reason(self, baseline):
        new = planted(features("new", seed=9), 20, 29, DIRTY, mean=500.0, median=400.0)
        gone = planted(new, 30, 59, DIRTY, mean=None)
        at = found(baseline, gone).filter(window=31)
        assert at["metric"][0] == DIRTY
        assert at["feature"][0] != "mean"
        assert at.select(pl.col("value", "expected").is_finite().all()).row(0) == (True, True)
        assert not found(baseline, gone)["claim"].str.contains("nan").any()


def test_every_feature_has_words_for_both_directions():
    words = yaml.safe_load((files("infrascope_core.anomalies") / "claims.yaml").read_text())
    assert set(words["features"]) == {*FEATURES, "missing", "still"}
    assert all(set(w) == {"noun", "above", "below"} for w in words["features"].values())
