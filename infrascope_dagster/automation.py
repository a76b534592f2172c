"""When assets are materialized without a click: a condition for each product, made from its declaration.

There is one question, which is the core's own: is the product stale? It is asked of the data folder at every
evaluation, and so nothing can be forgotten: not a change that came while something else was at work, and not a key that
was missing at the time. Products per run are asked for at once, in one run from the first that is stale to the report;
models are visited by the runs that need them; what is gathered from all runs waits for those that are on their way;
what else is pooled is made anew on a cron tick.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

import dagster as dg
from dagster import AutomationCondition as Condition

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope

MINING_CRON = "*/15 * * * *"
STUDY_CRON = "0 3 * * 0"
"""Sunday night: minutes of work that nothing waits for."""
HOURLY_CRON = "0 * * * *"
"""For standing questions, and for another try at what failed for another reason than a bad run file."""


class Staleness:
    """What is stale in a data folder, looked up once per evaluation.

    Parameters
    ----------
    graph : Graph
        The products.
    open_folder : callable
        Gives the folder as it is now.
    """

    def __init__(self, graph: Graph, open_folder: Callable[[], DataFolder]) -> None:
        self._graph = graph
        self._open = open_folder
        self._at: datetime | None = None
        self._found: Mapping[str, set[str] | bool] = {}

    def of(self, asset: str, at: datetime) -> set[str] | bool:
        """Stale run keys of an asset per run; whether a pooled one is stale.

        Parameters
        ----------
        asset : str
            Name of an asset; one that is not of the graph is never stale.
        at : datetime
            The evaluation's time: what was found at this time is found once.
        """
        if at != self._at:
            self._found, self._at = self._look(), at
        return self._found.get(asset, False)

    def _look(self) -> Mapping[str, set[str] | bool]:
        graph, folder = self._graph, self._open()
        try:
            arriving = Inbox.of(folder).keys
        except InfraScopeError:  # a source is missing; the sensor says so
            arriving = []
        per_run = graph.stale(folder, arriving)
        pooled = {product.name: self._is_stale(folder, product) for product in graph.order if not product.scope.per_run}
        return {t.name: (per_run if p.scope.per_run else pooled)[p.name] for p in graph.order for t in p.tables}

    def _is_stale(self, folder: DataFolder, pooled: Product) -> bool:
        gathered = pooled.scope is Scope.GATHERED
        if not gathered and self._graph.runs(folder).is_empty():
            return False
        try:
            if gathered:  # what was never made is stale, whatever it rests on: ask whether it can be made
                self._graph.rests_on(folder, pooled, "")
            return not self._graph.is_current(folder, pooled.name)
        except InfraScopeError:  # it lists what lies in the sources, and one is missing
            return False


class Stale(dg.AutomationCondition[dg.AssetKey]):
    """True for partitions that the core calls stale: never made, or made from something else than what is there now."""

    def __init__(self, staleness: Staleness) -> None:
        self._staleness = staleness

    @property
    def name(self) -> str:
        """The condition's name in the UI."""
        return "stale"

    @property
    def description(self) -> str:
        """The condition in words."""
        return "Was never made, or rests on something that changed"

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        """Look up the partitions of the asset that is evaluated."""
        stale = self._staleness.of(context.key.to_user_string(), context.evaluation_time)
        if isinstance(stale, bool):
            return dg.AutomationResult(context, context.candidate_subset if stale else context.get_empty_subset())
        return dg.AutomationResult(context, _among(context, stale))


class Waits(dg.AutomationCondition[dg.AssetKey]):
    """True for partitions of which an earlier product is stale and is not made in the same run.

    It says in one node what `any_deps_match(stale & ~will_be_requested)` says in four for each of up to six inputs: all
    nodes are stored with every evaluation.
    """

    def __init__(self, staleness: Staleness, before: Sequence[str]) -> None:
        self._staleness = staleness
        self._before = before

    @property
    def name(self) -> str:
        """The condition's name in the UI."""
        return "waits"

    @property
    def description(self) -> str:
        """The condition in words, with the products."""
        return f"One of {', '.join(self._before)} is stale and is not made in the same run"

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        """Compare what is stale of the earlier products with what this evaluation has asked for."""
        waiting: set[str] = set()
        for name in self._before:
            stale = self._staleness.of(name, context.evaluation_time)
            if isinstance(stale, set):
                waiting |= stale - _asked(context, name)
        return dg.AutomationResult(context, _among(context, waiting))


class Renewed(dg.AutomationCondition[dg.AssetKey]):
    """True for partitions of which an earlier product is made anew in the same run."""

    def __init__(self, before: Sequence[str]) -> None:
        self._before = before

    @property
    def name(self) -> str:
        """The condition's name in the UI."""
        return "renewed"

    @property
    def description(self) -> str:
        """The condition in words, with the products."""
        return f"One of {', '.join(self._before)} is made in the same run"

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        """Look up what this evaluation has asked for."""
        asked = set().union(*(_asked(context, name) for name in self._before))
        return dg.AutomationResult(context, _among(context, asked))


class Awaits(dg.AutomationCondition[dg.AssetKey]):
    """True while a run is on its way: it is stale, and what is to be made of it next did not fail.

    What is over all runs then waits, so that it is made once, from all of them. A run that failed holds nothing up: it
    stays stale until it is tried again.
    """

    def __init__(self, staleness: Staleness, products: Sequence[str]) -> None:
        self._staleness = staleness
        self._products = products

    @property
    def name(self) -> str:
        """The condition's name in the UI."""
        return "awaits_runs"

    @property
    def description(self) -> str:
        """The condition in words."""
        return "A run is stale, and what is to be made of it next did not fail"

    async def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:  # type: ignore[override]
        """Compare what is stale, in the order of the products, with what failed the last time that it was tried."""
        view, known, awaited = context.asset_graph_view, set[str](), set[str]()
        for name in self._products:
            stale = self._staleness.of(name, context.evaluation_time)
            if isinstance(stale, set) and (found := stale - known):
                key = dg.AssetKey(name)
                failed = await view.compute_execution_failed_subset(key=key, from_subset=view.get_full_subset(key=key))
                awaited |= found - (failed.expensively_compute_partition_keys() - _asked(context, name))
                known |= found
        return dg.AutomationResult(context, context.candidate_subset if awaited else context.get_empty_subset())


def _asked(context: dg.AutomationContext[dg.AssetKey], name: str) -> Set[str]:
    """Partitions of an asset per run that this evaluation has asked for."""
    asked = context.request_subsets_by_key.get(dg.AssetKey(name))
    return asked.expensively_compute_partition_keys() if asked else set()


def _among(context: dg.AutomationContext[dg.AssetKey], keys: Set[str]) -> Any:
    """Those of the evaluated partitions."""
    candidates = context.candidate_subset
    return candidates.compute_intersection_with_partition_keys(keys & candidates.expensively_compute_partition_keys())


def condition_of(graph: Graph, product: Product, staleness: Staleness) -> Any:
    """When a product is materialized without a click."""
    stale: Any = Stale(staleness)
    due = stale & ~Condition.in_progress()
    failed = Condition.execution_failed()
    updated: Any = Condition.any_deps_match(Condition.newly_updated()).since(Condition.newly_requested())
    an_hour_passed = Condition.cron_tick_passed(HOURLY_CRON)
    match product.scope:
        case Scope.ARRIVING:
            return (due & (~failed | updated | an_hour_passed)).with_label("a run file arrived or changed")
        case Scope.PER_RUN:
            before = [table.name for table in product.reads if graph.product(table).scope is Scope.PER_RUN]
            due = due & ~Waits(staleness, before) if before else due
            again = Renewed(before) if before else updated
            return (due & (~failed | again | an_hour_passed)).with_label("stale, in one run with what it is made from")
        case Scope.GATHERED:
            awaits = Awaits(staleness, [each.name for each in graph.order if each.scope.per_run])
            # while files keep coming, it is at most as old as what is mined
            due = due & (~awaits | Condition.cron_tick_passed(MINING_CRON))
            due = due & (~failed | updated | an_hour_passed)
            return due.with_label("after the last run on its way, or on the clock")
        case Scope.FITTED | Scope.MINED | Scope.COMPARED:
            on_the_clock = due & Condition.cron_tick_passed(MINING_CRON)
            return on_the_clock.with_label(f"{product.scope}: on the clock, if stale")
        case Scope.STUDIED:
            return (due & Condition.cron_tick_passed(STUDY_CRON)).with_label("studied: once a week, if stale")


ON_THE_HOUR = Condition.cron_tick_passed(HOURLY_CRON).with_label("every hour")
