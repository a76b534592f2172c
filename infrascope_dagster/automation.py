"""When assets are materialized without a click: a condition for each product, made from its declaration.

Three rules. A per-run product is made when it is missing and did not fail, when an input changed, or when a model that
it is judged by was refitted. A fitted product is visited after every batch, and fills what it lacks. A mined or
compared product is made anew on a cron tick, if its inputs changed since the last time.

`eager()` is not used: it forgets keys that were missing when it was first evaluated. A condition has at most one
`since`: two of them can share a node, and one then erases what the other remembers.
"""

from collections.abc import Iterable
from typing import Any

import dagster as dg
from dagster import AutomationCondition as Condition

from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope

MINING_CRON = "*/15 * * * *"
STUDY_CRON = "0 3 * * 0"
"""Sunday night: minutes of work that nothing waits for."""

_HANDLED = Condition.newly_requested() | Condition.newly_updated()
_NEVER_MADE = (Condition.missing() & ~Condition.execution_failed()).with_label("missing, and did not fail")
_AT_REST = ~Condition.any_deps_in_progress() & ~Condition.in_progress()


def condition_of(graph: Graph, product: Product) -> Any:
    """When a product is materialized without a click."""
    latest = _assets(graph.latest_inputs(product)) if product.scope is not Scope.ARRIVING else None
    match product.scope:
        case Scope.ARRIVING:
            return _follow(None, None, None, after_inputs=True).with_label("a run file arrived or changed")
        case Scope.PER_RUN:
            fitted = _assets(t.name for t in product.reads if graph.product(t).scope is Scope.FITTED)
            quoted = _assets(table.name for table in product.quotes)
            after = waits_for_inputs(graph, product)
            label = "per run, after its inputs" if after else "per run, in one run with its inputs"
            return _follow(latest, fitted, quoted, after_inputs=after).with_label(label)
        case Scope.GATHERED:
            return _review()
        case Scope.FITTED:
            fill = (_NEVER_MADE & _there(latest) | _changed_since(latest)) & _AT_REST
            return fill.with_label("fitted: fill what is missing")
        case Scope.MINED | Scope.COMPARED:
            return _on_the_clock(latest, MINING_CRON, f"{product.scope}: on the clock, if inputs changed")
        case Scope.STUDIED:
            return _on_the_clock(latest, STUDY_CRON, "studied: once a week, if inputs changed")


def waits_for_inputs(graph: Graph, product: Product) -> bool:
    """Whether a per-run product is made in a later run than its inputs.

    It is, after a run file arrived, because a failed key upstream must not hold up the others; and where it is the
    first to be judged by a model, which must have been filled in between.
    """
    before = [graph.product(table) for table in product.reads if graph.product(table).scope.per_run]
    if any(p.scope is Scope.ARRIVING for p in before):
        return True
    fitted = {table.name for table in product.reads if graph.product(table).scope is Scope.FITTED}
    return bool(fitted - {table.name for p in before for table in p.reads})


def _assets(names: Iterable[str]) -> dg.AssetSelection | None:
    names = sorted(names)
    return dg.AssetSelection.assets(*names) if names else None


def _follow(
    latest: dg.AssetSelection | None,
    fitted: dg.AssetSelection | None,
    quoted: dg.AssetSelection | None,
    after_inputs: bool,
) -> Any:
    """Follow the latest inputs of the same run; models when they were refitted; what is quoted, never.

    An input that others are made from is not followed: a report that was made when only its features were new would
    quote scores of the old ones.
    """
    changed: Any
    lacks: Any
    if after_inputs:
        changed, lacks = (
            Condition.any_deps_match(Condition.newly_updated()),
            Condition.any_deps_match(Condition.missing()),
        )
    else:
        changed, lacks = Condition.any_deps_updated(), Condition.any_deps_missing()
    busy = Condition.any_deps_in_progress()
    if latest is not None:
        changed = changed.allow(latest)
    if quoted is not None:
        lacks, busy = lacks.ignore(quoted), busy.ignore(quoted)
    if fitted is not None:
        changed = changed | Condition.any_deps_match(Condition.data_version_changed()).allow(fitted)
    changed = changed.since(_HANDLED).with_label("an input changed, or a model was refitted")
    return (_NEVER_MADE | changed) & ~lacks & ~busy & ~Condition.in_progress()


def _there(latest: dg.AssetSelection | None) -> Any:
    there = Condition.any_deps_match(~Condition.missing())
    return there if latest is None else there.allow(latest)


def _changed_since(latest: dg.AssetSelection | None) -> Any:
    changed = Condition.any_deps_updated()
    changed = changed if latest is None else changed.allow(latest)
    return changed.since(_HANDLED).with_label("inputs changed since")


def _on_the_clock(latest: dg.AssetSelection | None, cron: str, label: str) -> Any:
    due = (_changed_since(latest) | Condition.missing()) & _there(latest) & Condition.cron_tick_passed(cron)
    return (due.since(_HANDLED) & _AT_REST).with_label(label)


def _review() -> Any:
    """After every ingest run, failed ones too, and on the clock: a file with an unknown name makes no event."""
    failed = Condition.any_deps_match(Condition.execution_failed().newly_true())
    changed = (Condition.any_deps_updated() | failed).since(_HANDLED)
    due = changed | (_NEVER_MADE & _there(None)) | Condition.cron_tick_passed(MINING_CRON)
    return (due & _AT_REST).with_label("after every ingest run, failed ones too, and on the clock")


ON_THE_HOUR = Condition.cron_tick_passed("0 * * * *").with_label("every hour")
