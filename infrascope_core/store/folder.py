"""The data folder: its paths, the settings it is filled by, and the places where its run files come from."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from infrascope_core.errors import InfraScopeError
from infrascope_core.processes import Processes
from infrascope_core.settings import Settings, load_settings
from infrascope_core.store.atomic import ASIDE_SUFFIX, leftovers, sweep, write_text
from infrascope_core.store.lake import Lake
from infrascope_core.store.lock import locked

REMOTE = "hub:"
"""What the name of a source begins with that is not a path: `hub:OWNER/NAME`."""
_SETTINGS = "settings.json"
_UNFINISHED = (f"models/.*{ASIDE_SUFFIX}", "models/.*.npz.*", f"reports/.*{ASIDE_SUFFIX}")
"""Names of unfinished files in the folder's own folders; versions before 0.2 gave those of models no ending."""
_T = TypeVar("_T")
_Unit = TypeVar("_Unit")


@dataclass(frozen=True)
class DataFolder:
    """A data folder, the settings to fill it by, and where new run files lie.

    Attributes
    ----------
    root : Path
        Holds `lake/`, `models/`, `reports/`, `settings.json` and `warehouse.duckdb`.
    sources : tuple of Path
        Files, folders and archives in which run files are looked for, and data sets of the Hugging Face Hub.
    processes : Processes
        Who makes what is in it.
    """

    root: Path
    settings: Settings = field(default_factory=Settings)
    sources: tuple[Path, ...] = ()
    processes: Processes = field(default_factory=Processes, compare=False, repr=False)
    _looked_up: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def as_last_filled(cls, root: Path) -> DataFolder:
        """A data folder under the settings that it was last filled by.

        Raises
        ------
        InfraScopeError
            The folder was never filled.
        """
        if not (root / _SETTINGS).is_file():
            raise InfraScopeError(f"{root}: holds no lake yet; try `infrascope run PATH --data {root}`")
        return cls(root, load_settings(root / _SETTINGS, stored=True))

    @cached_property
    def lake(self) -> Lake:
        """The Parquet files."""
        return Lake(self.root / "lake")

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.root / "warehouse.duckdb"

    def picture(self, table: str, run_key: str) -> Path:
        """Where the picture of a table of a run lies, whether or not one was drawn."""
        return self.root / "pictures" / table / f"{run_key}.png"

    def fresh(self) -> DataFolder:
        """The same folder, with nothing looked up yet."""
        return replace(self)

    def once(self, what: Any, look_up: Callable[[], _T]) -> _T:
        """What was looked up under this name before, or is now: a snapshot that lasts as long as this object."""
        if what not in self._looked_up:
            self._looked_up[what] = look_up()
        return cast(_T, self._looked_up[what])

    def each(
        self,
        make: Callable[[DataFolder, _Unit], _T],
        units: Sequence[_Unit],
        tick: Callable[[int, int], None] = lambda done, total: None,
    ) -> Iterator[_T]:
        """What is made of each unit, in order, by the processes of this folder.

        Parameters
        ----------
        make : callable
            A function of a module.
        units : sequence
            The largest first, so that none is waited for alone.
        tick : callable
            Called with (done, total) as the work goes on.
        """
        # others look up for themselves, and keep what they looked up for as long as they live
        given = self if self.processes.number == 1 else self.fresh()
        for done, made in enumerate(self.processes.map(make, given, units), start=1):
            yield made
            tick(done, len(units))

    def remember_settings(self) -> None:
        """Leave the settings in the data folder, for whoever opens it later."""
        write_text(self.root / _SETTINGS, self.settings.model_dump_json(indent=1))

    def lock(self, name: str, on_wait: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
        """Exclude other writers of something in this folder, in this process or another, while a block runs."""
        return locked(self.root / ".locks" / name, on_wait)

    def check(self) -> None:
        """Make sure that the sources exist and that the folder can be written, and remove what killed writers left.

        Raises
        ------
        InfraScopeError
            A source does not exist, or the data folder cannot be written.
        """
        for source in self.sources:
            if not is_remote(source) and not source.exists():
                raise InfraScopeError(f"{source}: no such file or folder")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise InfraScopeError(f"{self.root}: nothing can be written there ({error.strerror or error})") from None
        self.lake.sweep()
        # the root may hold whatever a user puts there
        sweep([*leftovers(self.warehouse), *leftovers(self.root / _SETTINGS), *self.root.glob(".warehouse-*")])
        sweep(path for pattern in _UNFINISHED for path in self.root.glob(pattern))


def is_remote(source: Path) -> bool:
    """Whether a source is not a path of this machine."""
    return str(source).startswith(REMOTE)
