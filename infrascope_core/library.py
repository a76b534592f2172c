"""A data folder as a notebook sees it: its tables as DuckDB relations, its reports, and its refresh."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import duckdb

from infrascope_core.errors import InfraScopeError
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.reports.products import report_files
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import OnProgress, Scope
from infrascope_core.store.warehouse import publish


@dataclass(frozen=True)
class OpenFolder:
    """A data folder.

    Attributes
    ----------
    folder : DataFolder
        Its paths, settings and sources.
    """

    folder: DataFolder

    @classmethod
    def at(cls, data: Path, sources: tuple[Path, ...] = (), settings: Settings | None = None) -> OpenFolder:
        """The folder at a path, under the given settings or those that it was last filled by."""
        if settings is None and (data / "settings.json").is_file():
            settings = DataFolder.as_last_filled(data).settings
        return cls(DataFolder(data, settings or Settings(), sources))

    @property
    def tables(self) -> list[str]:
        """Names of all tables, in the order in which they are made."""
        return list(GRAPH.tables)

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """A table over all runs, as it lies in the lake now.

        Parameters
        ----------
        name : str
            One of `tables`.

        Returns
        -------
        duckdb.DuckDBPyRelation
            `.df()` gives pandas, `.pl()` polars, `.arrow()` Arrow; it can be filtered and joined before that. A table
            that was never made has its columns and no rows.

        Raises
        ------
        InfraScopeError
            There is no such table, or it is `telemetry`, whose columns differ from run to run.
        """
        if name == TELEMETRY.name:
            raise InfraScopeError("telemetry has other columns in every run; ask for telemetry(run_key)")
        if name not in GRAPH.tables:
            like = get_close_matches(name, self.tables, n=1)
            hint = f"did you mean {like[0]}?" if like else f"expected one of {', '.join(self.tables)}"
            raise InfraScopeError(f"{name[:60]!r} is not a table; {hint}")
        table, lake = GRAPH.tables[name], self.folder.lake
        if GRAPH.product(name).scope.per_run:
            pattern = f"{glob.escape(str(lake.root / name))}/*.parquet" if lake.keys(table) else None
        else:
            pattern = glob.escape(str(lake.path(table))) if lake.has(table) else None
        if pattern is None:
            return self._connection.from_arrow(table.empty().to_arrow())
        return self._connection.read_parquet(pattern)

    def telemetry(self, run_key: str) -> duckdb.DuckDBPyRelation:
        """The samples of a run: run_key, host, sample, ts, and one column per metric.

        Raises
        ------
        InfraScopeError
            There is no such run.
        """
        if not self.folder.lake.has(TELEMETRY, run_key):
            raise InfraScopeError(f"{run_key[:200]}: no accepted run file of that name")
        return self._connection.read_parquet(glob.escape(str(self.folder.lake.path(TELEMETRY, run_key))))

    def report(self, run_key: str) -> str:
        """The report on a run, as markdown.

        Raises
        ------
        InfraScopeError
            There is no report on such a run.
        """
        markdown, _ = report_files(self.folder, run_key)
        if not markdown.is_file():
            raise InfraScopeError(f"{run_key[:200]}: there is no report on a run of that name")
        return markdown.read_text(encoding="utf-8")

    def refresh(self, *, refit: bool = False, on_progress: OnProgress = lambda product, done, total: None) -> None:
        """Make whatever is new, changed, or rests on something that changed; see `pipeline.refresh`."""
        refresh(self.folder, refit, on_progress)

    def study(self, name: str) -> duckdb.DuckDBPyRelation:
        """Make one of the studies anew, which a refresh leaves out because they take long, and return it.

        Raises
        ------
        InfraScopeError
            There is no such study.
        """
        studies = [product.name for product in GRAPH.order if product.scope is Scope.STUDIED]
        if name not in studies:
            raise InfraScopeError(f"{name[:60]!r} is not a study; expected one of {', '.join(studies)}")
        GRAPH.make_pooled(self.folder, name, refit=True)
        publish(self.folder, GRAPH)
        return self.table(name)

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(":memory:")
