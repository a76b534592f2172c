"""Listing a source, of whatever kind it is."""

from __future__ import annotations

from pathlib import Path

from infrascope_core.run_files.sources.entry import Listing
from infrascope_core.run_files.sources.folder import list_paths
from infrascope_core.run_files.sources.hub import list_hub
from infrascope_core.store.folder import is_remote


def list_source(source: Path, pins: Path | None = None) -> Listing:
    """What lies in a source: a file, a folder, a zip archive, or `hub:OWNER/NAME`.

    Parameters
    ----------
    source : Path
        The source, as it was named.
    pins : Path, optional
        Folder in which is kept at which commit the branches of data sets are read.

    Raises
    ------
    InfraScopeError
        It does not exist, or cannot be reached.
    """
    return list_hub(str(source), pins) if is_remote(source) else list_paths(source)
