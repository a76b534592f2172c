"""The graph of declarations: the order of products, and whether one is current.

What belongs here: what follows from declarations alone. There is one rule of currency for all scopes. A product is made
of units: a run, a platform (fitted), or the whole folder. A unit *rests on* its code version, settings, inputs, and
whatever else its product depends on; the fingerprint of all that is kept with it, and a unit whose fingerprint differs
from today's is stale. What a fitted product rests on does not include its runs, because it keeps what it was fitted
on; that there are other runs than at its last visit only means that it is to be visited again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import cast

import polars as pl

from infrascope_core.contract import Table
from infrascope_core.errors import NotFittedError, PrunedError
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Frames, MakePooled, MakeRun, Part, Product, Scope, Tick

Runs = Callable[[DataFolder], pl.DataFrame]
"""Accepted runs of a folder: `run_key` and `platform`, sorted by run key."""


@dataclass(frozen=True)
class Graph:
    """Products that read each other's tables.

    Attributes
    ----------
    products : tuple of Product
        In any order.
    runs : callable
        The accepted runs of a folder.
    """

    products: tuple[Product, ...]
    runs: Runs

    @cached_property
    def by_table(self) -> dict[str, Product]:
        """The product that makes each table."""
        found: dict[str, Product] = {}
        for product in self.products:
            for table in product.tables:
                if table.name in found:
                    raise ValueError(f"two products make the table {table.name}")
                found[table.name] = product
        return found

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables by name, in the order in which they are made."""
        return {table.name: table for product in self.order for table in product.tables}

    @cached_property
    def order(self) -> tuple[Product, ...]:
        """The products, each after what it reads and quotes; otherwise as they were declared.

        Raises
        ------
        ValueError
            A product reads a table that nobody makes.
        graphlib.CycleError
            Products wait for each other.
        """
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for product in self.products:
            for table in (*product.reads, *product.quotes):
                if table.name not in self.by_table:
                    raise ValueError(f"{product.name} reads {table.name}, which no product makes")
            sorter.add(product.name, *(self.by_table[t.name].name for t in (*product.reads, *product.quotes)))
        sorter.prepare()
        declared = [product.name for product in self.products]
        found: list[str] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=declared.index)
            found += ready
            sorter.done(*ready)
        return tuple(self.by_table[name] for name in found)

    def comes_after(self, product: Product) -> set[str]:
        """Tables that a product is made after: what it reads and quotes, and what its models are fitted on per run.

        A model learns of a run through these tables; a product that is judged by the model waits for that.
        """
        tables = {table.name for table in (*product.reads, *product.quotes)}
        if product.scope is Scope.PER_RUN:
            fitted = [p for p in map(self.product, product.reads) if p.scope is Scope.FITTED]
            learnt = {table.name for p in fitted for table in p.reads if self.product(table).scope is Scope.PER_RUN}
            tables |= learnt - {table.name for table in product.tables}
        return tables

    def column_lineage(self, table: Table) -> dict[str, list[tuple[str, str]]]:
        """Columns of other tables that each column of a table comes from, as (table, column).

        Returns
        -------
        dict of str to list of tuple
            By column: those that it is declared to be computed from, or else the same column of what the product reads.
            Columns of which neither is known are left out.
        """
        product = self.product(table)
        found: dict[str, list[tuple[str, str]]] = {}
        for column in table.columns:
            declared = [(name, of) for name, _, of in (source.partition(".") for source in column.of)]
            same = [(source.name, column.name) for source in product.reads if column in source.columns]
            if sources := declared or same:
                found[column.name] = sources
        return found

    def plus(self, *products: Product) -> Graph:
        """The graph with further products."""
        return Graph((*self.products, *products), self.runs)

    def product(self, table: Table | str) -> Product:
        """The product that makes a table."""
        return self.by_table[table if isinstance(table, str) else table.name]

    def upstream(self, table: Table | str) -> list[Product]:
        """A table's product and all that it is made from, in order."""
        wanted = {self.product(table).name}
        for product in reversed(self.order):
            if product.name in wanted:
                wanted |= {self.product(source).name for source in product.reads}
        return [product for product in self.order if product.name in wanted]

    # --- currency ---

    def rests_on(self, folder: DataFolder, product: Product, unit: str, run_keys: Iterable[str] | None = None) -> str:
        """Fingerprint that a current unit of a product would bear.

        Parameters
        ----------
        folder : DataFolder
            Where it lies.
        product : Product
            The declaration.
        unit : str
            A run key; a platform; else `""` or one of the product's own units.
        run_keys : iterable of str, optional
            Runs of a pooled unit; by default all. A fitted unit does not rest on its runs.
        """
        parts = [product.name, product.code_version]
        if not product.scope.per_run and product.scope is not Scope.FITTED:
            # made anew at little cost, so that other columns need no other code version
            parts.append(_columns(product.tables[0]))
        parts += [_digest(folder, name) for name in product.settings]
        for source in product.inputs:
            if isinstance(source, Part):
                parts.append(source.of(folder, unit))
            elif not self.product(source).scope.per_run:
                parts.append(folder.lake.version(source) or "")
            elif product.scope is Scope.PER_RUN:
                parts.append(folder.lake.made_from(source, unit) or "")
            elif product.scope is not Scope.FITTED:
                parts.append(_covers(folder, source, self._keys(folder) if run_keys is None else run_keys))
        return fingerprint(*parts, product.depends_on(folder, unit))

    def is_current(self, folder: DataFolder, table: Table | str, run_key: str = "") -> bool:
        """Whether a product exists, with its files, and rests on what is there now.

        What is made of a run whose samples were dropped stays as it is, and what is missing of it stays missing.

        Parameters
        ----------
        folder : DataFolder
            Where it lies.
        table : Table or str
            One of its tables.
        run_key : str
            Of a product per run.
        """
        product = self.product(table)
        first, *others = product.tables
        if not all(file.is_file() for file in product.files(folder, run_key)):
            return False
        if product.scope is Scope.PER_RUN and self.is_pruned(folder, run_key):
            return True
        if product.scope.per_run:
            here = all(folder.lake.made_from(other, run_key) is not None for other in others)
            # a rejected run file has no other tables
            complete = here or (product.scope is Scope.ARRIVING and run_key not in set(self._keys(folder)))
            return (
                complete
                and folder.lake.made_from(first, run_key) == self.rests_on(folder, product, run_key)
                and not product.is_refuted(folder, run_key)
            )
        kept = folder.lake.made_from(first)
        if kept is None:
            return False
        then = State.of(kept)
        return then == self._state(folder, product, then.units)

    def _state(self, folder: DataFolder, product: Product, holding: Iterable[str]) -> State:
        """What a current pooled product would be kept with; a fitted one also has the platforms that it holds."""
        if product.scope is Scope.FITTED:
            runs = {platform: list[str]() for platform in holding} | self._platforms(folder)
            read = [table for table in product.reads if self.product(table).scope.per_run]
            units = {platform: self.rests_on(folder, product, platform) for platform in runs}
            seen = [f"{p} {fingerprint(*(_covers(folder, table, keys) for table in read))}" for p, keys in runs.items()]
            return State(fingerprint(*sorted(seen)), units)
        if product.units is None:
            return State(self.rests_on(folder, product, ""), {})
        # a run that is in no unit changes nothing
        units = {unit: self.rests_on(folder, product, unit, keys) for unit, keys in product.units(folder).items()}
        return State(self.rests_on(folder, product, "", ()), units)

    def stale(self, folder: DataFolder, arriving: Iterable[str]) -> dict[str, set[str]]:
        """Runs for which a product per run, or one that it is made from, is not current.

        Parameters
        ----------
        folder : DataFolder
            Where it lies.
        arriving : iterable of str
            Run keys of the files that lie in the sources.

        Returns
        -------
        dict of str to set of str
            Run keys by name of the product. A run whose file is to be read first is stale in no later product: it is
            not known yet whether there is something to make.
        """
        found: dict[str, set[str]] = {}
        unread: set[str] = set()
        for product in self.order:
            if product.scope is Scope.ARRIVING:
                found[product.name] = {key for key in arriving if not self.is_current(folder, product.name, key)}
                unread |= found[product.name]
            elif product.scope is Scope.PER_RUN:
                before = {self.product(table).name for table in product.reads}
                known = set().union(*(found[name] for name in before & found.keys())) - unread
                others = (key for key in self._keys(folder) if key not in known and key not in unread)
                found[product.name] = known | {key for key in others if not self.is_current(folder, product.name, key)}
        return found

    def models_to_visit(self, folder: DataFolder, product: Product) -> list[Product]:
        """Models that a product per run reads and that have not seen the runs as they are now, in order."""
        models = {self.product(table).name for table in product.reads if self.product(table).scope is Scope.FITTED}
        return [model for model in self.order if model.name in models and not self.is_current(folder, model.name)]

    # --- dropping samples ---

    def prune(self, folder: DataFolder, run_key: str) -> int:
        """Drop the rows of a run's bulky tables and keep all that was made of them; return the bytes that are free now.

        A run whose file changes is read again, and is whole then.
        """
        # what is read first is emptied last: an interruption leaves a run that is pruned once more
        return sum(folder.lake.empty(table, run_key) for table in reversed(self._bulky))

    def keep_pruned(self, folder: DataFolder) -> None:
        """Give what was dropped by an earlier version the columns of today, so that all runs can be read together."""
        for run_key in self._keys(folder):
            if self.is_pruned(folder, run_key):
                self.prune(folder, run_key)

    def is_pruned(self, folder: DataFolder, run_key: str) -> bool:
        """Whether the samples of a run were dropped."""
        return any(folder.lake.is_emptied(table, run_key) for table in self._bulky[:1])

    @cached_property
    def _bulky(self) -> list[Table]:
        """Tables with most of what runs take, in the order in which they are made."""
        return [table for product in self.order if product.scope.per_run for table in product.tables if table.bulk]

    def _keys(self, folder: DataFolder) -> list[str]:
        return list(self.runs(folder)["run_key"])

    def _platforms(self, folder: DataFolder) -> dict[str, list[str]]:
        runs = self.runs(folder).partition_by("platform", as_dict=True)
        return {str(platform): list(own["run_key"]) for (platform,), own in runs.items()}

    # --- making ---

    def make(self, folder: DataFolder, table: Table | str, run_key: str) -> Sequence[pl.DataFrame]:
        """Make a product of a run, put its tables into the lake, and return them.

        Raises
        ------
        NotFittedError
            A pooled table that it reads was never made.
        PrunedError
            The samples of the run were dropped.
        """
        product = self.product(table)
        if product.scope is Scope.PER_RUN and self.is_pruned(folder, run_key):
            raise PrunedError(f"{run_key}: its samples were dropped, so nothing more is made of it")
        for source in product.reads:
            if not self.product(source).scope.per_run and not folder.lake.has(source):
                raise NotFittedError(f"{source.name} is not fitted yet; it comes before {product.name} of {run_key}")
        rests_on = self.rests_on(folder, product, run_key)
        frames = _each(cast(MakeRun, product.make)(folder, run_key))
        # the first table last: it is the one that says whether the product is current
        for each, frame in reversed(list(zip(product.tables, frames, strict=product.scope is not Scope.ARRIVING))):
            folder.lake.write(frame, each, run_key, rests_on)
        return frames

    def make_pooled(
        self, folder: DataFolder, table: Table | str, *, refit: bool = False, tick: Tick = lambda done, total: None
    ) -> pl.DataFrame:
        """Make a pooled product, or fill a fitted one, put it into the lake, and return it.

        Two writers of one folder go one after the other.

        Parameters
        ----------
        folder : DataFolder
            Where it lies.
        table : Table or str
            Its table.
        refit : bool
            Make it anew, whatever it holds.
        tick : callable
            Called with (done, total).
        """
        product = self.product(table)
        made = product.tables[0]
        with folder.lock(product.name):
            then = State.of(folder.lake.made_from(made) or "")
            # what was there before the work began: a run that changes meanwhile is seen by the next visit
            now = self._state(folder, product, () if refit else then.units)
            kept = [] if refit else [unit for unit, rests_on in then.units.items() if now.units.get(unit) == rests_on]
            held = folder.lake.read(made) if kept else made.empty()
            held = held.filter(pl.col(product.unit_column).is_in(kept))
            frame = made.conform(cast(MakePooled, product.make)(folder, held, tick))
            folder.lake.write(frame, made, made_from=now.as_text())
        return frame

    def forget(self, folder: DataFolder, run_key: str) -> None:
        """Remove all products of a run, with their files and pictures; pooled products are stale thereby.

        What makes it a run goes first: if this is interrupted, nothing is made of a part of it.
        """
        for product in self.order:
            if product.scope is Scope.ARRIVING:
                folder.lake.drop(product.tables[0], run_key)
        for file in self._files_of(folder, run_key):
            file.unlink(missing_ok=True)
        folder.lake.drop_run(run_key)

    def is_forgotten(self, folder: DataFolder, run_key: str) -> bool:
        """Whether nothing is left of a run, or was never made."""
        return not any(file.exists() for file in self._files_of(folder, run_key))

    def _files_of(self, folder: DataFolder, run_key: str) -> list[Path]:
        """All files that may have been made of a run."""
        found: list[Path] = []
        for product in self.order:
            if product.scope.per_run:
                found += product.files(folder, run_key)
                for table in product.tables:
                    found += [folder.lake.path(table, run_key), folder.picture(table.name, run_key)]
        return found


@dataclass(frozen=True)
class State:
    """What is kept with a pooled product.

    Attributes
    ----------
    whole : str
        What all of it rests on, beside its units; of a fitted product, the runs that it has seen.
    units : dict of str to str
        What each unit rests on.
    """

    whole: str
    units: dict[str, str]

    @classmethod
    def of(cls, text: str) -> State:
        """The state by the text that it was kept as; an empty one if it is none."""
        try:
            content = json.loads(text)
            return cls(str(content["whole"]), dict(content["units"]))
        except (ValueError, TypeError, KeyError):  # never made, or by an earlier version
            return cls("", {})

    def as_text(self) -> str:
        """The text to keep."""
        return json.dumps({"whole": self.whole, "units": self.units}, sort_keys=True)


def _covers(folder: DataFolder, table: Table, run_keys: Iterable[str]) -> str:
    """Fingerprint of a per-run table of these runs."""
    return fingerprint(*(f"{key} {folder.lake.made_from(table, key)}" for key in run_keys))


def _columns(table: Table) -> str:
    return json.dumps({name: str(dtype) for name, dtype in table.schema.items()})


def _digest(folder: DataFolder, section: str) -> str:
    return folder.once(("digest", section), lambda: str(getattr(folder.settings, section).digest()))


def _each(made: Frames) -> tuple[pl.DataFrame, ...]:
    return made if isinstance(made, tuple) else (made,)
