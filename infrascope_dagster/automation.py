"""When assets are materialized without a click: the conditions, and the sensor that evaluates them.

Three rules. A per-run product is made when it is missing and did not fail, when an input changed, or when a
model that it is judged by was refitted. A fitted product is visited after every batch, and fills what it lacks.
A mined product is made anew on a cron tick, if its inputs changed since the last time.

`eager()` is not used: it forgets keys that were missing when it was first evaluated.
"""

from typing import Any

import dagster as dg
from dagster import AutomationCondition as Condition

FITTED = dg.AssetSelection.assets("metric_catalog", "thresholds", "baselines")
POOLED_LATER = dg.AssetSelection.assets("association_rules", "host_deviations")
"""What a per-run product quotes from the whole fleet: as it stands, neither waited for nor followed (docs/adr/0019)."""

MINING_CRON = "*/15 * * * *"
EVALUATION_CRON = "0 3 * * 0"
"""Sunday night: minutes of work that nothing waits for."""

_HANDLED = Condition.newly_requested() | Condition.newly_updated()
_NEVER_MADE = (Condition.missing() & ~Condition.execution_failed()).with_label("missing, and did not fail")
_REFITTED = (
    Condition.any_deps_match(Condition.data_version_changed())
    .allow(FITTED)
    .since(_HANDLED)
    .with_label("a model was refitted")
)
_MODEL_ABOUT_TO_CHANGE = Condition.any_deps_match(Condition.will_be_requested()).allow(FITTED)
_AT_REST = ~Condition.any_deps_in_progress() & ~Condition.in_progress()
_CHANGED_SINCE = Condition.any_deps_updated().since(_HANDLED).with_label("inputs changed since")
_SOME_INPUT = Condition.any_deps_match(~Condition.missing() | Condition.will_be_requested())


def _follow(new_input: Any, lacks_input: Any) -> Any:
    changed = new_input.ignore(FITTED | POOLED_LATER).since(_HANDLED).with_label("an input changed")
    lacks = lacks_input.ignore(POOLED_LATER)
    at_rest = ~Condition.any_deps_in_progress().ignore(POOLED_LATER) & ~Condition.in_progress()
    return (_NEVER_MADE | changed | _REFITTED) & ~lacks & ~_MODEL_ABOUT_TO_CHANGE & at_rest


WITH_INPUTS = _follow(Condition.any_deps_updated(), Condition.any_deps_missing()).with_label(
    "per run, in one run with its inputs"
)
"""For a product whose inputs may be made in the same run."""

AFTER_INPUTS = _follow(
    Condition.any_deps_match(Condition.newly_updated()), Condition.any_deps_match(Condition.missing())
).with_label("per run, after its inputs")
"""For a product whose inputs must be finished first: a failed key upstream must not hold up the others."""

FILL = ((_NEVER_MADE & _SOME_INPUT | _CHANGED_SINCE) & _AT_REST).with_label("fitted: fill what is missing")


def _on_the_clock(cron: str, label: str) -> Any:
    due = (_CHANGED_SINCE | Condition.missing()) & _SOME_INPUT & Condition.cron_tick_passed(cron)
    return (due.since(_HANDLED) & _AT_REST).with_label(label)


MINE = _on_the_clock(MINING_CRON, "mined: on the clock, if inputs changed")

WEEKLY = _on_the_clock(EVALUATION_CRON, "evaluated: once a week, if inputs changed")

REVIEW = (
    (
        _CHANGED_SINCE
        | _NEVER_MADE
        | Condition.any_deps_match(Condition.execution_failed().newly_true()).since(_HANDLED)
        # a file with an unknown name is no partition and makes no event
        | Condition.cron_tick_passed(MINING_CRON)
    )
    & _AT_REST
).with_label("after every ingest run, failed ones too, and on the clock")

ON_THE_HOUR = Condition.cron_tick_passed("0 * * * *").with_label("every hour")

automation_sensor = dg.AutomationConditionSensorDefinition(
    "automation",
    target=dg.AssetSelection.all() | dg.AssetSelection.all_asset_checks(),
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
