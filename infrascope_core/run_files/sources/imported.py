"""Run files of telemetry that others keep: they are imported into the data folder first, and listed there.

A source that is a YAML file says what is imported (docs/importing.md). What belongs here: where its run files lie, and
what was said when somebody last looked. The importing itself is in `importers`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from infrascope_core.run_files.sources.entry import Listing
from infrascope_core.run_files.sources.folder import list_paths
from infrascope_core.store.atomic import write_text

_LAST_LOOK = ".import.json"


@dataclass(frozen=True)
class Look:
    """What is kept of the last look at a source of telemetry.

    Attributes
    ----------
    made : str
        Fingerprint of what run files were made of telemetry: names and mappings.
    state : str
        Fingerprint of the order, and of the files that it names.
    empty : tuple of str
        Run keys of jobs without samples: a server is not asked for them again.
    notes : tuple of str
        What a person should know, in a sentence each.
    """

    made: str = ""
    state: str = ""
    empty: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def last(cls, folder: Path) -> Look:
        """The last look; an empty one if there was none, or nothing can be told of it."""
        try:
            content = json.loads((folder / _LAST_LOOK).read_text(encoding="utf-8"))
            lists = {name: tuple(map(str, content[name])) for name in ("empty", "notes")}
            return cls(str(content["made"]), str(content["state"]), **lists)
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def keep(self, folder: Path) -> None:
        """Keep it beside the run files."""
        write_text(folder / _LAST_LOOK, json.dumps(asdict(self), indent=1))


def is_import(source: Path) -> bool:
    """Whether a source says what is to be imported, instead of holding run files."""
    return source.suffix.lower() in (".yaml", ".yml")


def import_folder(source: Path, kept: Path) -> Path:
    """Where the run files of a source of telemetry lie.

    Parameters
    ----------
    source : Path
        The YAML file.
    kept : Path
        Where a data folder keeps what belongs to its sources.
    """
    return kept / source.stem


def list_imported(source: Path, kept: Path) -> Listing:
    """The run files that were imported so far."""
    folder = import_folder(source, kept)
    found = list_paths(folder) if folder.is_dir() else Listing("")
    notes = (f"{source}: {note}" for note in Look.last(folder).notes)
    return replace(found, source=str(source), notices=(*found.notices, *notes))
