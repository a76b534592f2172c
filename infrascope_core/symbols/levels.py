"""Which levels hold for a run: what later stages ask of the thresholds."""

from __future__ import annotations

from infrascope_core.run_files.runs import platform_of, rows_of_run
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import THRESHOLDS


def thresholds_of_run(folder: DataFolder, key: str) -> str:
    """Version of the thresholds of a run's platform."""
    what = ("versions of thresholds", folder.lake.version(THRESHOLDS), platform_of(folder, key))
    return folder.once(what, lambda: ",".join(rows_of_run(folder, THRESHOLDS, key)["version"].unique().sort()))
