"""Episodes: which windows belong together, who carries them and in which order, and what was usual around them."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES
from infrascope_core.patterns.tables import ASSOCIATION_RULES
from infrascope_core.reports.episodes import build_episodes
from infrascope_core.reports.settings import EpisodeSettings
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.symbols.tables import BASKETS

START = dt.datetime(2025, 5, 7)
SECOND = dt.timedelta(seconds=1)
Z, M, F = "zscore", "mahalanobis", "isolation_forest"


def second(n: float) -> dt.datetime:
    return START + n * SECOND


def frame(table, *rows: dict) -> pl.DataFrame:
    base = dict.fromkeys(table.schema.names()) | {"run_key": "run", "host": "h"}
    kept = {k: v for k, v in base.items() if k in table.schema.names()}
    return pl.DataFrame([kept | row for row in rows], schema=table.schema)


def score(window: int, surprisal: float = 4.0, **changed) -> dict:
    values = {
        "window": window, "start_ts": second(window), "surprisal": surprisal, "severity": surprisal / 2,
        "anomalous": surprisal >= 3, "flagged_by": [Z] if surprisal >= 2 else [], "agreement": int(surprisal >= 2),
    }  # fmt: skip
    return values | changed


def reason(window: int, rank: int, subsystem: str, share: float, contribution: float = 0.1, **changed) -> dict:
    values = {
        "window": window, "rank": rank, "subsystem": subsystem, "metric": f"{subsystem}:m", "feature": "mean",
        "detectors": [Z], "contribution": contribution, "subsystem_share": share,
        "claim": f"{subsystem} in {window}",
    }  # fmt: skip
    return values | changed


def basket(window: int, item: str, **changed) -> dict:
    group, _, level = item.rpartition("_")
    return {"window": window, "start_ts": second(window), "metric_group": group, "level": level, "item": item} | changed


def rule(antecedent: str, consequent: str, confidence: float = 0.95, lift: float = 2.0, **changed) -> dict:
    sides = {"antecedent": antecedent.split(), "consequent": consequent.split()}
    return sides | {"scope": "gpu", "confidence": confidence, "lift": lift, "q_value": 0.0} | changed


def build(scores, reasons=(), baskets=(), rules=(), length=3.0, **changed) -> pl.DataFrame:
    def of(table, rows):
        return rows if isinstance(rows, pl.DataFrame) else frame(table, *rows)

    rule_rows = pl.DataFrame(
        [dict.fromkeys(ASSOCIATION_RULES.schema.names()) | row for row in rules], schema=ASSOCIATION_RULES.schema
    )
    return build_episodes(
        of(ANOMALY_SCORES, scores),
        of(ANOMALY_REASONS, reasons),
        of(BASKETS, baskets),
        rule_rows,
        window_length=length * SECOND,
        stride=SECOND,
        settings=EpisodeSettings(**changed),
    )


def only(*args, **changed) -> dict:
    (episode,) = build(*args, **changed).to_dicts()
    return episode


# -- which windows belong together


def test_anomalous_windows_at_most_two_apart_are_one_episode():
    scores = [
        score(3, 4.0, flagged_by=[F]),
        score(4, 1.0),
        score(6, 5.0, flagged_by=[F, Z]),
        score(8, 2.5),  # flagged, but no alarm
        score(10, 3.5, flagged_by=[M]),
    ]
    found = build(scores)
    assert found.schema == ANOMALY_EPISODES.schema
    columns = ("episode", "first_window", "last_window", "start_ts", "end_ts", "windows", "peak_window", "detectors")
    assert found.select(columns).rows() == [
        (0, 3, 6, second(3), second(9), 2, 6, [Z, F]),
        (1, 10, 10, second(10), second(13), 1, 10, [M]),
    ]
    assert found.select("total_surprisal", "surprisal", "severity", "peak_ts").rows() == [
        (9.0, 5.0, 2.5, second(6)),
        (3.5, 3.5, 1.75, second(10)),
    ]


def test_flags_without_an_alarm_make_no_episode():
    assert build([score(0, 2.5), score(1, 2.9)]).equals(ANOMALY_EPISODES.empty())
    assert build([]).equals(ANOMALY_EPISODES.empty())
    assert build([score(0, anomalous=None)]).is_empty()


def test_runs_and_hosts_are_never_merged():
    scores = [score(0, host="h1"), score(1, host="h2"), score(1, run_key="other", host="h1")]
    assert build(scores).select("run_key", "host", "episode").rows() == [
        ("other", "h1", 0),
        ("run", "h1", 0),
        ("run", "h2", 0),
    ]


def test_windows_that_share_samples_are_one_episode_whatever_the_gap():
    assert build([score(0), score(4)], length=5.0, gap=0).height == 1
    assert build([score(0), score(5)], length=5.0, gap=0).height == 2


def test_a_hole_in_the_sampling_ends_an_episode():
    assert build([score(0), score(1, start_ts=second(31))]).height == 1
    assert build([score(0), score(1, start_ts=second(32))]).height == 2


@settings(max_examples=40)
@given(
    st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=40),
    st.integers(0, 4),
    st.integers(1, 6),
)
def test_episodes_cover_just_the_anomalous_windows_and_never_overlap(anomalous, gap, length):
    scores = [score(w, 4.0 if (h, w) in anomalous else 1.0, host=h) for h in "ab" for w in range(61)]
    found = build(scores, length=float(length), gap=gap)
    covered = set()
    for host, first, last, windows in found.select("host", "first_window", "last_window", "windows").iter_rows():
        within = {(h, w) for h, w in anomalous if h == host and first <= w <= last}
        assert len(within) == windows
        assert {(host, first), (host, last)} <= within
        covered |= within
    assert covered == anomalous
    for _, episodes in found.group_by("host", maintain_order=True):
        assert episodes["episode"].to_list() == list(range(episodes.height))
        spans = episodes.select("start_ts", "end_ts").rows()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_the_order_of_rows_does_not_matter():
    scores = frame(ANOMALY_SCORES, *(score(w, 3.0 + w % 3) for w in range(0, 40, 2)))
    reasons = frame(
        ANOMALY_REASONS,
        *(reason(w, r, s, 0.5, 0.1 / r) for w in range(0, 40, 2) for r, s in ((1, "CPU"), (2, "GPU"))),
    )
    shuffled = build(scores.sample(fraction=1, shuffle=True, seed=1), reasons.sample(fraction=1, shuffle=True, seed=2))
    assert shuffled.equals(build(scores, reasons))


# -- who carries an episode, and in which order


def test_shares_are_means_over_the_windows_weighted_by_surprisal():
    reasons = [
        reason(0, 1, "CPU", 0.9),
        reason(0, 2, "Storage", 0.1),
        reason(1, 1, "Storage", 0.6),
        reason(1, 2, "CPU", 0.3),
        reason(1, 3, "Network", 0.1),
    ]
    episode = only([score(0, 3.0), score(1, 9.0)], reasons)
    # CPU (3 * 0.9 + 9 * 0.3) / 12, Storage (3 * 0.1 + 9 * 0.6) / 12, Network 0.9 / 12: below a fifth
    assert episode["subsystems"] == ["Storage", "CPU"]
    assert episode["shares"] == pytest.approx([0.475, 0.45])
    assert episode["subsystem"] == "Storage"


def test_the_first_subsystem_is_named_however_small_its_share():
    assert only([score(0)], [reason(0, 1, "CPU", 0.1), reason(0, 2, "GPU", 0.05)])["subsystems"] == ["CPU"]


def test_a_probability_of_zero_is_a_large_weight_and_no_error():
    reasons = [reason(0, 1, "CPU", 1.0), reason(1, 1, "GPU", 1.0)]
    episode = only([score(0, float("inf")), score(1, 3.0)], reasons)
    assert (episode["subsystem"], episode["peak_window"], episode["surprisal"]) == ("CPU", 0, float("inf"))
    assert episode["shares"] == pytest.approx([300 / 303])


def test_an_io_burst_and_then_the_frequency():
    """Reveal, section 5.6: storage first, then the processor; a flag ahead of the first alarm counts."""
    reasons = [
        reason(8, 1, "Storage", 0.6),
        reason(10, 1, "Storage", 0.3),
        reason(10, 2, "CPU", 0.6, metric="Turbostat:Bzy_MHz.-[MHz]"),
    ]
    episode = only([score(8, 2.5), score(10, 4.0)], reasons)
    assert (episode["subsystems"], episode["onset"]) == (["CPU", "Storage"], ["Storage", "CPU"])
    assert episode["headline"] == (
        "Storage, then CPU 2 s later; 60% of the evidence on CPU, foremost Turbostat:Bzy_MHz.-[MHz]."
    )


def test_subsystems_of_one_window_come_together():
    episode = only([score(0)], [reason(0, 1, "CPU", 0.5), reason(0, 2, "Storage", 0.4)])
    assert episode["headline"] == "CPU and Storage together; 50% of the evidence on CPU, foremost CPU:m."


def test_what_came_together_is_named_together_and_then_what_followed():
    first = [reason(0, 1, "CPU", 0.4), reason(0, 2, "GPU", 0.3), reason(0, 3, "Memory", 0.3)]
    later = [reason(3, 1, "Storage", 0.5), reason(3, 2, "CPU", 0.4)]
    headline = only([score(0), score(3)], first + later, carrying_share=0.15)["headline"].split(";")[0]
    assert headline == "CPU, GPU and Memory together, then Storage 3 s later"


def test_the_headline_of_an_episode_without_reasons():
    episode = only([score(0), score(1)])
    assert (episode["subsystem"], episode["subsystems"], episode["claims"]) == (None, [], [])
    assert episode["headline"] == "2 anomalous windows without a reason."


# -- metrics and claims


def test_metrics_rank_by_what_they_contribute_to_all_windows():
    reasons = [
        reason(0, 1, "CPU", 1.0, 0.4, metric="late"),
        reason(0, 2, "CPU", 1.0, 0.1, metric="steady"),
        reason(0, 3, "CPU", 1.0, 0.1, metric="steady", feature="variance"),
        reason(1, 1, "CPU", 1.0, 0.3, metric="steady"),
    ]
    # late 3 * 0.4, steady 3 * 0.2 + 4 * 0.3
    assert only([score(0, 3.0), score(1, 4.0)], reasons)["metrics"] == ["steady", "late"]
    assert only([score(0, 3.0), score(1, 4.0)], reasons, metrics=1)["metrics"] == ["steady"]


def test_a_metric_makes_one_claim_that_of_its_strongest_feature():
    reasons = [
        reason(0, 1, "CPU", 1.0, 0.4, feature="mean", claim="mean, once"),
        reason(0, 2, "CPU", 1.0, 0.3, feature="variance", claim="variance, weaker"),
        reason(1, 1, "CPU", 1.0, 0.35, feature="variance", claim="variance"),
    ]
    assert only([score(0), score(1)], reasons)["claims"] == ["variance"]


def test_each_carrying_subsystem_has_a_claim_before_the_others():
    reasons = [
        reason(0, 1, "CPU", 0.3, 0.3, metric="CPU:a", claim="a"),
        reason(0, 2, "CPU", 0.3, 0.2, metric="CPU:b", claim="b"),
        reason(0, 3, "Storage", 0.6, 0.1, metric="Storage:c", claim="c"),
        reason(0, 4, "GPU", 0.1, 0.05, metric="GPU:d", claim="d"),
    ]
    assert only([score(0)], reasons)["claims"] == ["c", "a", "b", "d"]
    assert only([score(0)], reasons, claims=2)["claims"] == ["c", "a"]


# -- symbolic states


def test_states_before_during_and_after_are_the_most_frequent_items():
    levels = {
        **dict.fromkeys(range(10), "LOW"),
        10: "HIGH",
        11: "HIGH",
        12: "MED",
        **dict.fromkeys(range(13, 25), "MED"),
    }
    baskets = [basket(w, f"IO_pressure_{level}") for w, level in levels.items()]
    baskets += [basket(w, "GPU_util_LOW") for w in (10, 11, 12)]
    episode = only([score(10)], baskets=baskets)
    assert episode["states_before"] == ["IO_pressure_LOW"]
    assert episode["states_during"] == ["GPU_util_LOW", "IO_pressure_HIGH"]
    assert episode["states_after"] == ["IO_pressure_MED"]  # no item of GPU_util: missing, not LOW


def test_states_are_looked_for_as_long_as_the_episode_within_limits():
    baskets = [basket(w, "load_HIGH" if w in (4, 60) else "load_LOW", metric_group="load") for w in range(4, 100)]
    rare = [basket(4, "rare_HIGH"), basket(60, "rare_HIGH")]
    # one window at 10: five seconds before it reach back to 5, and not to 4
    assert only([score(10)], baskets=baskets + rare)["states_before"] == ["load_LOW"]
    # 20 windows at 70 last 22 s: they reach back to 48
    assert only([score(w) for w in range(70, 90)], baskets=baskets + rare)["states_before"] == ["load_LOW", "rare_HIGH"]


def test_equally_frequent_items_are_decided_by_the_alphabet():
    baskets = [basket(10, "load_MED"), basket(11, "load_HIGH")]
    assert only([score(10)], baskets=baskets)["states_during"] == ["load_HIGH"]


# -- broken rules

USUAL = [basket(w, item) for w in range(10) for item in ("util_HIGH", "power_HIGH")]


def test_a_rule_is_broken_where_its_left_side_holds_and_another_item_stands_on_its_right():
    baskets = USUAL + [basket(w, i) for w in (10, 11, 12) for i in ("util_HIGH", "power_LOW")]
    rules = [rule("util_HIGH", "power_HIGH"), rule("power_HIGH", "util_HIGH")]
    assert only([score(10)], baskets=baskets, rules=rules)["broken_rules"] == [
        "util_HIGH -> power_HIGH (confidence 0.95)"
    ]


def test_a_missing_item_breaks_no_rule():
    baskets = USUAL + [basket(w, "util_HIGH") for w in (10, 11, 12)]
    assert only([score(10)], baskets=baskets, rules=[rule("util_HIGH", "power_HIGH")])["broken_rules"] == []


@pytest.mark.parametrize(("broken", "expected"), [(1, 0), (2, 1), (3, 1)])
def test_a_rule_must_fail_in_more_than_half_of_the_baskets(broken, expected):
    baskets = USUAL + [basket(w, "util_HIGH") for w in (10, 11, 12)]
    baskets += [basket(w, "power_LOW" if w < 10 + broken else "power_HIGH") for w in (10, 11, 12)]
    found = only([score(10)], baskets=baskets, rules=[rule("util_HIGH", "power_HIGH")])["broken_rules"]
    assert len(found) == expected


def test_a_rule_that_this_run_breaks_all_the_time_is_not_reported():
    baskets = [basket(w, i) for w in range(20) for i in ("util_HIGH", "power_LOW")]
    assert only([score(10)], baskets=baskets, rules=[rule("util_HIGH", "power_HIGH")])["broken_rules"] == []


def test_a_rule_not_seen_outside_the_episode_rests_on_the_fleets_confidence():
    baskets = [basket(w, i) for w in (10, 11, 12) for i in ("util_HIGH", "power_LOW")]
    assert len(only([score(10)], baskets=baskets, rules=[rule("util_HIGH", "power_HIGH")])["broken_rules"]) == 1


def test_weak_rules_are_not_used_and_the_strongest_broken_rule_is_reported():
    baskets = [basket(w, i) for w in (10, 11, 12) for i in ("util_HIGH", "load_LOW", "power_LOW", "temp_LOW")]
    rules = [
        rule("util_HIGH", "power_HIGH", confidence=0.95, lift=2),
        rule("util_HIGH load_LOW", "power_HIGH", confidence=0.99, lift=3),
        rule("util_HIGH", "load_LOW power_HIGH", confidence=0.99, lift=9),  # longer, and fails in the same
        rule("load_LOW", "power_MED", confidence=0.5),
        rule("load_LOW", "temp_HIGH", confidence=0.95, q_value=0.2),
        rule("load_LOW", "temp_MED", confidence=0.95, lift=1.5),
        rule("load_LOW", "temp_HIGH", confidence=0.95, lift=0.9),
    ]
    assert only([score(10)], baskets=baskets, rules=rules)["broken_rules"] == [
        "util_HIGH + load_LOW -> power_HIGH (confidence 0.99)",
        "load_LOW -> temp_MED (confidence 0.95)",
    ]
    assert len(only([score(10)], baskets=baskets, rules=rules, broken_rules=1)["broken_rules"]) == 1


# -- retransmissions


def test_retransmissions_are_judged_by_what_moves_with_them():
    reasons = [
        reason(0, 1, "Network", 0.6, metric="NetworkTCPRetrans_diff:TcpRetransSegs[count]", feature="sum_values"),
        reason(0, 2, "CPU", 0.3, metric="Turbostat:IRQ.-[count]", feature="variance"),
    ]
    episode = only([score(0)], reasons)
    assert episode["retransmissions"] == "fault-induced"
    assert episode["headline"].endswith("; its retransmissions are fault-induced.")
    assert only([score(0)], [reason(0, 1, "CPU", 1.0)])["retransmissions"] is None
