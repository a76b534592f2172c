"""InfraScope as a library: `open` a data folder, and get any of its tables.

Examples
--------
>>> import infrascope_core as ic
>>> folder = ic.open("data")  # doctest: +SKIP
>>> folder.table("anomaly_episodes").df()  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infrascope_core.library import OpenFolder
    from infrascope_core.settings import Settings

__all__ = ["open"]


def open(data: str | Path, *, sources: Iterable[str | Path] = (), settings: Settings | None = None) -> OpenFolder:  # noqa: A001 - as in `gzip.open`
    """Open a data folder, filled or new.

    Parameters
    ----------
    data : path
        The folder that `infrascope run` fills.
    sources : iterable of path
        Run files, and folders that are searched for them, for `OpenFolder.refresh`.
    settings : Settings, optional
        What the folder is filled by; by default the settings that it was last filled by.
    """
    from infrascope_core.library import OpenFolder  # noqa: PLC0415 - scikit-learn and the rest take a second

    return OpenFolder.at(Path(data), tuple(Path(source) for source in sources), settings)
