"""Listing a source, of whatever kind it is."""

from __future__ import annotations

from pathlib import Path

from infrascope_core.run_files.sources.entry import Listing
from infrascope_core.run_files.sources.folder import list_paths
from infrascope_core.run_files.sources.hub import list_hub
from infrascope_core.run_files.sources.imported import is_import, list_imported
from infrascope_core.store.folder import is_remote


def list_source(source: Path, kept: Path | None = None) -> Listing:
    """What lies in a source: a file, a folder, a zip archive, `hub:OWNER/NAME`, or what a YAML file had imported.

    Parameters
    ----------
    source : Path
        The source, as it was named.
    kept : Path, optional
        Where a data folder keeps what belongs to its sources: at which commit the branches of data sets are read, and
        imported run files.

    Raises
    ------
    InfraScopeError
        It does not exist, or cannot be reached.
    """
    if is_remote(source):
        return list_hub(str(source), kept)
    if kept is not None and is_import(source):
        return list_imported(source, kept)
    return list_paths(source)
