"""The report on a run: its verdict, what limits it, and its text, which no name can break."""

from __future__ import annotations

import datetime as dt
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, LEVEL_OFFSETS, WINDOW_FEATURES
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.reports.evidence import ComparedWith, Evidence
from infrascope_core.reports.model import RunReport, json_schema
from infrascope_core.reports.next_steps import next_step
from infrascope_core.reports.rendering import as_json, as_markdown, as_row, as_text, escape
from infrascope_core.reports.settings import ReportSettings
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_REPORT
from infrascope_core.reports.verdict import run_report
from infrascope_core.run_files.columns import SUBSYSTEMS, subsystem

START = dt.datetime(2025, 5, 7, 10, 32)
RUN = {
    "run_key": "train_BERT_run_h", "platform": "gpu", "phase": "train", "workload": "BERT__Cls__default", "host": "h",
    "samples": 600, "started_at": START,
}  # fmt: skip
METRICS = ("Turbostat:Busy%.-[%]", "GPU: power.draw.0[W]", "Memory:Dirty[kB]", "Storage_diff:sectors_read[count]")


def second(n: float) -> dt.datetime:
    return START + dt.timedelta(seconds=n)


def frame(table, *rows: dict) -> pl.DataFrame:
    base = dict.fromkeys(table.schema.names()) | {"run_key": RUN["run_key"], "host": "h"}
    return pl.DataFrame([base | row for row in rows], schema=table.schema)


def quality(*metrics: str, **changed) -> pl.DataFrame:
    rows = [{"metric": m, "subsystem": subsystem(m), "verdict": "usable", "infinite": 0} | changed for m in metrics]
    return frame(QUALITY_METRICS, *rows)


def features(windows: int = 20, metrics=METRICS, until: dict | None = None) -> pl.DataFrame:
    ends = until or {}
    return frame(
        WINDOW_FEATURES,
        *(
            {
                "window": w,
                "windows": 1,
                "metric": m,
                "start_ts": second(w),
                "maximum": 1.0 if w < ends.get(m, windows) else None,
            }
            for m in metrics
            for w in range(windows)
        ),
    )


def scores(windows: int = 20, anomalous=(), flagged=()) -> pl.DataFrame:
    rows = [
        {
            "window": w, "start_ts": second(w), "surprisal": 4.0 + w / 10 if w in anomalous else 1.0,
            "anomalous": w in anomalous, "agreement": int(w in anomalous or w in flagged),
            "flagged_by": ["zscore", "mahalanobis"] if w in anomalous else [],
        }
        for w in range(windows)
    ]  # fmt: skip
    return frame(ANOMALY_SCORES, *rows)


def reason(window: int, rank: int = 1, **changed) -> dict:
    values = {
        "window": window, "rank": rank, "subsystem": "CPU", "metric": "Turbostat:Busy%.-[%]", "feature": "variance",
        "claim": "Busy% is less steady.",
    }  # fmt: skip
    return values | changed


def episode(number: int = 0, **changed) -> dict:
    values = {
        "episode": number, "start_ts": second(5), "end_ts": second(9), "peak_ts": second(6), "first_window": 5,
        "last_window": 6, "peak_window": 6, "windows": 2, "surprisal": 5.0, "total_surprisal": 9.0, "severity": 2.0,
        "detectors": ["zscore"], "subsystem": "CPU", "subsystems": ["CPU", "Storage"], "shares": [0.6, 0.3],
        "onset": ["Storage", "CPU"], "metrics": ["Turbostat:Busy%.-[%]"], "claims": ["Busy% is less steady."],
        "states_before": ["load_LOW", "util_HIGH"], "states_during": ["load_HIGH", "util_HIGH"],
        "states_after": ["util_HIGH"], "broken_rules": [], "headline": "Storage, then CPU 1 s later.",
    }  # fmt: skip
    return values | changed


OWN = ComparedWith("60 windows of 3 runs", hosts=frozenset({"h"}))


def report(compared: ComparedWith | None = OWN, run=None, **tables) -> RunReport:
    healthy = {"quality": quality(*METRICS), "features": features(), "scores": scores()}
    return run_report(
        Evidence(RUN | (run or {}), **(healthy | tables)),
        compared,
        window_samples=30,
        least_windows=30,
        pattern_window_s=1.0,
        settings=ReportSettings(table_rows=3),
    )


DISTURBED: dict[str, Any] = {
    "scores": scores(anomalous=(5, 6), flagged=(12,)),
    "reasons": frame(ANOMALY_REASONS, reason(5), reason(6), reason(6, 2, metric="IRQ", feature="mean")),
    "episodes": frame(ANOMALY_EPISODES, episode()),
}


# -- verdicts


def offset(**changed) -> dict:
    values = {
        "host": "h", "rank": 1, "subsystem": "Memory", "metric": "Memory:MemFree[kB]", "feature": "mean",
        "value": 8 * 2**20, "expected": 40 * 2**20, "offset": -90.0, "times": 60.0, "differs": True,
    }  # fmt: skip
    return values | changed


OFFSETS = frame(
    LEVEL_OFFSETS,
    offset(),
    offset(rank=2, metric="Turbostat:Busy%.3[%]", subsystem="CPU", value=80.0, expected=20.0, times=30.0),
    offset(rank=3, metric="Turbostat:Busy%.4[%]", subsystem="CPU", value=80.0, expected=20.0, times=20.0),
    offset(rank=4, metric="Memory:Dirty[kB]", times=3.0, differs=False),
)


def test_a_run_that_is_another_as_a_whole_differs_and_raises_no_alarm():
    found = report(offsets=OFFSETS)
    assert found.verdict == "differs"
    assert found.why == (
        "Nothing stands out within it, but the run differs from its references as a whole, in Memory, CPU: "
        "Memory:MemFree[kB] 8 GB instead of 40 GB."
    )
    assert found.next_step.startswith("Compare what the run was started with")
    # one core of a family; what is within reach of the references is left to the table
    assert [o.metric for o in found.offsets] == ["Memory:MemFree[kB]", "Turbostat:Busy%.3[%]"]
    for text in (as_text(found), as_markdown(found)):
        assert "In what the run differs as a whole" in text
        assert "60 times as far from the references as they are from each other" in text
    assert as_text(found).splitlines()[1].startswith("  Differs as a whole. ")


def test_an_alarm_within_it_comes_first():
    found = report(**DISTURBED, offsets=OFFSETS)
    assert found.verdict == "anomalous"
    assert found.why.endswith(
        "Besides, the run differs from its references as a whole, in Memory, CPU: "
        "Memory:MemFree[kB] 8 GB instead of 40 GB."
    )
    assert report().offsets == []


def test_a_run_that_has_only_itself_is_not_judged():
    unjudged = scores().with_columns(anomalous=pl.lit(None, pl.Boolean))
    found = report(ComparedWith("60 windows of 1 run", alone=True), scores=unjudged)
    assert found.verdict == "not_judged"
    assert "to judge this one by: it takes 1 more. Compared with itself" in found.why


def test_a_run_with_an_episode_is_anomalous():
    found = report(**DISTURBED)
    assert found.verdict == "anomalous"
    assert found.why == ("2 of 20 windows are anomalous, in one episode; from 10:32:05: Storage, then CPU 1 s later.")
    assert (found.windows, found.flagged_windows, found.anomalous_windows) == (20, 3, 2)
    assert found.next_step.startswith("Look at what ran on the processor")
    assert [c.model_dump() for c in found.episodes[0].changes] == [
        {"metric_group": "load", "before": "LOW", "during": "HIGH", "after": None}
    ]


def test_the_strongest_episode_comes_first_and_gives_the_subsystem():
    later = episode(
        1,
        start_ts=second(15),
        surprisal=4.0,
        total_surprisal=12.0,
        subsystems=["Storage"],
        shares=[0.9],
        headline="Storage.",
    )
    found = report(**DISTURBED | {"episodes": frame(ANOMALY_EPISODES, episode(), later)})
    assert found.why == "2 of 20 windows are anomalous, in 2 episodes; the strongest from 10:32:15: Storage."
    assert [e.headline for e in found.episodes] == ["Storage.", "Storage, then CPU 1 s later."]
    assert as_row(found, "a.md", "a.json")["subsystem"].to_list() == ["Storage"]


def test_a_healthy_run_is_normal_although_some_windows_stand_out():
    found = report(scores=scores(flagged=(3,)))
    assert (found.verdict, found.next_step) == ("normal", "Nothing to do.")
    assert found.why == ("None of 20 windows is anomalous; detectors flag 1 (5%), too few or too weakly for an alarm.")
    assert found.limits == []


def test_a_run_that_nothing_could_judge_is_not_normal():
    found = report(compared=None, scores=ANOMALY_SCORES.empty())
    assert found.verdict == "not_judged"
    assert found.why == (
        "There is no baseline for train BERT__Cls__default on gpu: the run has 20 of the 30 windows that one takes."
    )
    assert found.baseline == "none"
    assert (found.windows, found.judged_windows) == (20, 0)


def test_scores_without_a_judgement_are_not_normal_either():
    found = report(scores=scores().with_columns(anomalous=pl.lit(None, pl.Boolean)))
    assert (found.verdict, found.why) == ("not_judged", "The baseline shares no metric with the run.")


# -- what limits a verdict


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"features": features(1), "scores": scores(1)},
            "h has one window only: nothing in the run can be compared with it.",
        ),
        (
            {"features": features(4), "scores": scores(4)},
            "h has 4 windows only: a short disturbance fills a large part of them.",
        ),
        (
            {"features": features(until={METRICS[0]: 12})},
            "1 metric stopped before the end: Turbostat:Busy%.-[%].",
        ),
        (
            {"quality": quality(*METRICS, infinite=3)},
            f"Infinite values in 4 metrics count as missing: {', '.join(sorted(METRICS))}.",
        ),
        (
            {"quality": quality("interval[s]", verdict="gaps", missing=7, zeros=2)},
            "The sampling on h has gaps (7 samples lost, 2 repeated): windows beside them cover more time than others.",
        ),
        (
            {"compared": ComparedWith("b", hosts=frozenset({"other"}))},
            "No run of the baseline is from h: what is peculiar to its hardware makes it differ as a whole.",
        ),
        (
            {"compared": ComparedWith("b", alone=True, past=True)},
            "The baseline is made of this run alone: what lasts from its beginning to its end looks normal.",
        ),
        (
            {"compared": ComparedWith("b", own=False, hosts=frozenset({"h"}))},
            "train BERT__Cls__default has no baseline of its own and is judged by all workloads on gpu: what is "
            "peculiar to it may count as abnormal.",
        ),
    ],
)
def test_each_limit_of_a_verdict_is_one_sentence(tables, sentence):
    found = report(**tables)
    assert found.limits == [sentence]
    assert sentence.split(":")[0].replace("%", "") in as_markdown(found).replace("\\", "").replace("%", "")


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (
            {"features": WINDOW_FEATURES.empty(), "run": {"samples": 12}},
            "The run has 12 samples, fewer than the 30 of one window.",
        ),
        (
            {"features": WINDOW_FEATURES.empty(), "quality": quality(*METRICS, verdict="zero")},
            "None of the run's 4 metrics can be used (in this run: 4 zero).",
        ),
    ],
)
def test_a_run_without_windows_is_not_judged_and_the_reason_is_given(tables, why):
    found = report(scores=ANOMALY_SCORES.empty(), **tables)
    assert (found.verdict, found.why, found.windows) == ("not_judged", why, 0)


def test_a_metric_that_misses_a_few_windows_at_the_end_has_not_stopped():
    assert report(features=features(until={METRICS[0]: 15})).limits == []
    assert report(features=features(until={METRICS[0]: 14})).limits


@pytest.mark.parametrize(("interval_s", "text", "window"), [(60.0, "1.0 min", "30.0 min"), (5.0, "5 s", "2.5 min")])
def test_slow_sampling_limits_what_can_be_seen_and_the_windows_are_said(interval_s, text, window):
    (sentence,) = report(run={"interval_s": interval_s}).limits
    assert sentence == (
        f"There is a sample every {text} only: what is shorter does not show, a window of patterns is one sample, and "
        f"one of the detectors is 30 samples, which take {window}."
    )


@pytest.mark.parametrize("interval_s", [0.1, 1.0, None])
def test_usual_sampling_does_not(interval_s):
    assert report(run={"interval_s": interval_s}).limits == []


def test_long_lists_are_cut_and_counted():
    metrics = [f"m{i}" for i in range(8)]
    (sentence,) = report(quality=quality(*metrics, infinite=1)).limits
    assert sentence == "Infinite values in 8 metrics count as missing: m0, m1, m2, m3, m4 and 3 more."


def test_subsystems_without_metrics_are_named():
    unused = quality(*METRICS, "NetworkProtocolCounts:TCP[count]")
    gpu_less = features(metrics=[m for m in METRICS if not m.startswith("GPU")])
    assert [(n.subsystem, n.reason) for n in report(quality=unused, features=gpu_less).not_watched] == [
        ("GPU", "1 metric, none of which can be used."),
        ("Network", "1 metric, none of which can be used."),
    ]
    assert [(n.subsystem, n.reason) for n in report().not_watched] == [("Network", "the file has no metric of it.")]


def test_hosts_that_depart_from_the_others_are_shown_strongest_first():
    rows = [
        {"metric": "a", "deviates": True, "robust_z": 4.0, "claim": "a is high"},
        {"metric": "b", "deviates": True, "robust_z": -9.0, "claim": "b is low"},
        {"metric": "c", "deviates": False, "robust_z": 99.0, "claim": "c is nothing"},
    ]
    found = report(deviations=frame(HOST_DEVIATIONS, *rows))
    assert [d.claim for d in found.deviations] == ["b is low", "a is high"]
    assert found.why == "None of 20 windows is anomalous, but the host departs from the others of its job in 2 metrics."
    assert found.next_step.startswith("Compare the configuration of the host")


# -- next steps (Reveal, section 6)


@pytest.mark.parametrize(
    ("metrics", "subsystems", "judged", "expected"),
    [
        (["NetworkTCPRetrans_diff:TcpRetransSegs[count]"], ["Network"], "fault-induced", "network path"),
        (["NetworkTCPRetrans_diff:TcpRetransSegs[count]"], ["Network"], "workload-intrinsic", "other runs"),
        (
            ["Turbostat:Busy%.3[%]", "NetworkInterStat_diff:rx_bytes.ib0[Bytes]", "GPU: power.draw.0[W]"],
            ["Network", "CPU", "GPU"], None, "queue pairs",
        ),
        (["Perf:IPC[-]", "Perf:Cycle_activity_stalls_l3_miss[count]"], ["CPU"], None, "NUMA"),
        (["Turbostat:Busy%.3[%]", "Turbostat:IRQ.3[count]"], ["CPU"], None, "irqbalance"),
        (["Turbostat:Bzy_MHz.3[MHz]", "Turbostat:IRQ.3[count]"], ["CPU"], None, "interrupts first"),
        (["CPU:softirq[%]", "CPU:CPU1Utilization[%]", "Storage_diff:x[ms]"], ["Storage"], None, "checkpoints, logs"),
        (["Turbostat:Bzy_MHz.3[MHz]", "Storage_diff:sectors_read[count]"], ["Storage", "CPU"], None, "storage first"),
        (["Memory:HugePages_Total[count]"], ["Memory"], None, "HugePages_Free"),
        (["Memory:Writeback[kB]"], ["Memory"], None, "dirty pages"),
        (["Memory:AnonPages[kB]"], ["Memory"], None, "a leak"),
        ([], [], None, "no subsystem"),
    ],
)  # fmt: skip
def test_the_next_step_follows_the_papers_case_studies(metrics, subsystems, judged, expected):
    assert expected in next_step(metrics, subsystems, judged)


def test_there_is_advice_for_every_subsystem():
    advice = yaml.safe_load((resources.files("infrascope_core.reports") / "next_steps.yaml").read_text("utf-8"))
    assert set(advice["subsystems"]) == set(SUBSYSTEMS)
    for pattern in advice["patterns"]:
        assert pattern.keys() <= {"name", "first", "metrics", "retransmissions", "step"}
        assert set(pattern["first"]) <= set(SUBSYSTEMS)
        assert pattern.keys() & {"metrics", "retransmissions"}
        [re.compile(p) for p in pattern.get("metrics", ())]


# -- markdown


def test_the_text_of_a_disturbed_run():
    found = report(**DISTURBED)
    assert as_markdown(found).splitlines()[:9] == [
        "# train\\_BERT\\_run\\_h",
        "",
        "**Anomalous.** 2 of 20 windows are anomalous, in one episode; from 10:32:05: Storage, then CPU 1 s later.",
        "",
        "**Evidence.**",
        "",
        "- Busy% is less steady.",
        "",
        "**Next step.** " + found.next_step,
    ]
    table = as_markdown(found).split("## Anomalous windows\n\n")[1].splitlines()
    assert table[:4] == [
        "| Window (ID / Timestamp) | Method(s) | Subsystem | Main reasons (Metric–Feature) | Claim |",
        "|---|---|---|---|---|",
        "| 5 / 10:32:05 | Z, MAHA | CPU | Turbostat:Busy%.-\\[%\\]–variance | Busy% is less steady. |",
        "| 6 / 10:32:06 | Z, MAHA | CPU | Turbostat:Busy%.-\\[%\\]–variance; IRQ–mean | Busy% is less steady. |",
    ]


def test_the_table_holds_the_most_surprising_windows_in_time():
    found = report(scores=scores(anomalous=(2, 3, 4, 9)))
    assert [row.window for row in found.table] == [3, 4, 9]
    assert found.table_left_out == 1
    assert "1 more, of smaller surprisal," in as_markdown(found)


def test_a_window_is_blamed_on_the_subsystem_of_most_evidence():
    reasons = [
        reason(5, 1, subsystem="Network", metric="n", claim="n is odd", subsystem_share=0.3),
        reason(5, 2, subsystem="Memory", metric="a", claim="a is high", subsystem_share=0.6),
        reason(5, 3, subsystem="Memory", metric="b", claim="b is high", subsystem_share=0.6),
    ]
    (row,) = report(scores=scores(anomalous=(5,)), reasons=frame(ANOMALY_REASONS, *reasons)).table
    assert (row.subsystem, row.claim) == ("Memory", "a is high")
    assert [r.metric for r in row.reasons] == ["n", "a", "b"]


def test_a_healthy_runs_text_is_short():
    text = as_markdown(report())
    assert "## Anomalous windows" not in text
    assert "## Episodes" not in text
    assert "Nothing to do." in text


def tokens(text: str) -> set[str]:
    """Kinds of all that markdown makes of a text."""
    parsed = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text)
    return {token.type for block in parsed for token in [block, *(block.children or [])]}


PLAIN = {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}

HOSTILE = [
    "<script>alert(1)</script>", "[x](http://evil.example)", "![x](http://evil.example/p.png)", "a|b|c", "`code`",
    "**bold** _em_ ~~gone~~", "# heading", "- item", "1. item", "> quote", "line\nbreak\r\n| a |", "\x1b[31mred\x07",
    "http://evil.example www.evil.example a@evil.example", "\\", "&lt;b&gt;", "===", "---", "    code", "\u202egnp.exe",
    "{{ 7 * 7 }}{% raw %}", "<!-- comment", "\\|\\[", "[x]: http://evil.example", "$x$",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_shown_and_not_interpreted(text):
    shown = escape(text)
    assert tokens(shown) <= PLAIN
    assert all(c.isprintable() for c in shown)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_no_text_is_interpreted(text):
    shown = escape(text)
    assert tokens(shown) <= PLAIN
    assert tokens(f"- {shown}") <= PLAIN | {
        f"{kind}_{way}" for kind in ("bullet_list", "list_item") for way in ("open", "close")
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_run_changes_nothing_in_the_layout(text):
    def disturbed(name: str) -> str:
        tables = {
            "scores": DISTURBED["scores"],
            "reasons": frame(ANOMALY_REASONS, reason(5, metric=name, feature=name, claim=name)),
            "episodes": frame(
                ANOMALY_EPISODES,
                episode(
                    headline=name, metrics=[name], claims=[name], broken_rules=[name], states_before=[f"{name}_LOW"]
                ),
            ),
            "deviations": frame(HOST_DEVIATIONS, {"metric": name, "deviates": True, "claim": name}),
            "quality": quality(name, infinite=1),
            "run": {"workload": name, "run_key": name},
        }
        return as_markdown(report(ComparedWith(name), **tables))

    def layout(markdown: str) -> list[str]:
        return [block.type for block in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)]

    assert layout(disturbed(text)) == layout(disturbed("plain"))
    assert not tokens(disturbed(text)) & {"html_block", "link_open", "image", "code_block", "fence"}


# -- plain text


def test_plain_text_has_all_that_markdown_has_without_markup():
    later = episode(1, start_ts=second(15), claims=["IRQ is high."], metrics=["IRQ"], total_surprisal=3.0)
    found = report(**DISTURBED | {"episodes": frame(ANOMALY_EPISODES, episode(), later)})
    text = as_text(found)
    assert text.splitlines()[:9] == [
        "train_BERT_run_h",
        f"  Anomalous. {found.why}",
        "",
        "Evidence",
        "  - Busy% is less steady.",
        "",
        "Next step",
        f"  {found.next_step}",
        "",
    ]
    assert "  - 6 / 10:32:06  Z, MAHA  CPU  Turbostat:Busy%.-[%]–variance; IRQ–mean\n" in text
    assert "  - Levels before, during and after: load LOW -> HIGH -> –.\n" in text
    assert "Subsystems with no usable metric\n  - Network: the file has no metric of it.\n" in text
    words = set(re.findall(r"\w+", as_markdown(found).replace("\\", "")))
    assert words - set(re.findall(r"\w+", text)) <= {
        *("ID", "Timestamp", "Method", "Main", "reasons", "Metric", "Feature", "Claim", "Subsystem", "Window", "s"),
        *("Episodes", "strongest", "first", "Group", "Before", "During", "After", "Not", "watched"),
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_neither_breaks_a_line_nor_reaches_the_terminal(text):
    def lines(name: str) -> list[str]:
        reasons = frame(ANOMALY_REASONS, reason(5, metric=name, feature=name, claim=name))
        found = report(**DISTURBED | {"reasons": reasons, "run": {"workload": name}})
        return as_text(found).splitlines()

    assert len(lines(text)) == len(lines("plain"))
    assert all(c.isprintable() for line in lines(text) for c in line)


# -- JSON


def test_the_json_is_valid_sorted_and_by_its_schema():
    endless = episode(surprisal=float("inf"), metrics=["m\x1b[31m\u202e"])
    found = report(**DISTURBED | {"episodes": frame(ANOMALY_EPISODES, endless)})
    text = as_json(found)
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert text == json.dumps(parsed, sort_keys=True, indent=1) + "\n"
    assert text.isascii()
    assert "\x1b" not in text
    assert parsed["episodes"][0]["surprisal"] is None
    assert parsed["schema_version"] == 2
    assert RunReport.model_validate_json(text) == found


def test_the_page_of_the_schema_is_current():
    page = Path(__file__).parents[3] / "docs" / "report.schema.json"
    assert page.read_text(encoding="utf-8") == json_schema(), "run `make docs`"


def test_the_row_is_the_report_in_short():
    row = as_row(report(**DISTURBED), "reports/r.md", "reports/r.json")
    assert row.schema == ANOMALY_REPORT.schema
    assert row.select("verdict", "subsystem", "episodes", "windows", "anomalous_windows", "not_watched").rows() == [
        ("anomalous", "CPU", 1, 20, 2, ["Network"])
    ]
