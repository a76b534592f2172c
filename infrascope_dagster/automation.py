"""When assets are materialized without a click: a condition for each product, made from its declaration.

Three rules. A per-run product is made when it is missing and did not fail, when an input changed, or when a model that
it is judged by was refitted. A fitted product is visited after every batch, and fills what it lacks. A mined or
compared product is made anew on a cron tick, if its inputs changed since the last time.

`eager()` is not used: it forgets keys that were missing when it was first evaluated. A condition has at most one
`since`: two of them can share a node, and one then erases what the other remembers.
"""

from functools import reduce
from operator import or_
from typing import Any

import dagster as dg
from dagster import AutomationCondition as Condition

from infrascope_core.contract import Table
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope

MINING_CRON = "*/15 * * * *"
STUDY_CRON = "0 3 * * 0"
"""Sunday night: minutes of work that nothing waits for."""

_HANDLED = Condition.newly_requested() | Condition.newly_updated()
_NEVER_MADE = (Condition.missing() & ~Condition.execution_failed()).with_label("missing, and did not fail")
_AT_REST = ~Condition.any_deps_in_progress() & ~Condition.in_progress()
_SOME_INPUT = Condition.any_deps_match(~Condition.missing() | Condition.will_be_requested())


def condition_of(graph: Graph, product: Product) -> Any:
    """When a product is materialized without a click."""
    match product.scope:
        case Scope.ARRIVING:
            return _follow(None, None, after_inputs=True).with_label("a run file arrived or changed")
        case Scope.PER_RUN:
            fitted = [table for table in product.reads if graph.product(table).scope is Scope.FITTED]
            after = waits_for_inputs(graph, product)
            label = "per run, after its inputs" if after else "per run, in one run with its inputs"
            return _follow(_assets(fitted), _assets(product.quotes), after_inputs=after).with_label(label)
        case Scope.GATHERED:
            return _review()
        case Scope.FITTED:
            fill = (_NEVER_MADE & _SOME_INPUT | _changed_since()) & _AT_REST
            return fill.with_label("fitted: fill what is missing")
        case Scope.MINED | Scope.COMPARED:
            return _on_the_clock(MINING_CRON, f"{product.scope}: on the clock, if inputs changed")
        case Scope.STUDIED:
            return _on_the_clock(STUDY_CRON, "studied: once a week, if inputs changed")


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


def _assets(tables: list[Table] | tuple[Table, ...]) -> dg.AssetSelection | None:
    return dg.AssetSelection.assets(*(table.name for table in tables)) if tables else None


def _follow(fitted: dg.AssetSelection | None, quoted: dg.AssetSelection | None, after_inputs: bool) -> Any:
    """Follow the inputs of the same run; models when they were refitted; what is quoted, never."""
    pooled = [selection for selection in (fitted, quoted) if selection is not None]
    new_input: Any = (
        Condition.any_deps_match(Condition.newly_updated()) if after_inputs else Condition.any_deps_updated()
    )
    lacks = Condition.any_deps_match(Condition.missing()) if after_inputs else Condition.any_deps_missing()
    busy = Condition.any_deps_in_progress()
    changed: Any = new_input.ignore(reduce(or_, pooled)) if pooled else new_input
    if quoted is not None:
        lacks, busy = lacks.ignore(quoted), busy.ignore(quoted)
    ready = ~lacks & ~busy & ~Condition.in_progress()
    if fitted is not None:
        changed = changed | Condition.any_deps_match(Condition.data_version_changed()).allow(fitted)
        ready &= ~Condition.any_deps_match(Condition.will_be_requested()).allow(fitted)
    return (_NEVER_MADE | changed.since(_HANDLED).with_label("an input changed, or a model was refitted")) & ready


def _changed_since() -> Any:
    return Condition.any_deps_updated().since(_HANDLED).with_label("inputs changed since")


def _on_the_clock(cron: str, label: str) -> Any:
    changed = Condition.any_deps_updated().since(_HANDLED).with_label("inputs changed since")
    due = (changed | Condition.missing()) & _SOME_INPUT & Condition.cron_tick_passed(cron)
    return (due.since(_HANDLED) & _AT_REST).with_label(label)


def _review() -> Any:
    """After every ingest run, failed ones too, and on the clock: a file with an unknown name makes no event."""
    failed = Condition.any_deps_match(Condition.execution_failed().newly_true())
    changed = (Condition.any_deps_updated() | failed).since(_HANDLED)
    due = changed | _NEVER_MADE | Condition.cron_tick_passed(MINING_CRON)
    return (due & _AT_REST).with_label("after every ingest run, failed ones too, and on the clock")


ON_THE_HOUR = Condition.cron_tick_passed("0 * * * *").with_label("every hour")
