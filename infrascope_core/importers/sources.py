"""Telemetry as a source of a data folder: what is new of it is imported, and read from there like any run files.

What belongs here: what is done already, and what is kept for the next look. The importing is that of
`infrascope import`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from infrascope_core.errors import InfraScopeError, SourceError, StorageError
from infrascope_core.importers.importing import NoSamplesError, Outcome, remarks
from infrascope_core.importers.order import FilesOrder, load_order
from infrascope_core.run_files.inbox import kept_of
from infrascope_core.run_files.name import run_key
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.sources.folder import LocalFile, growing
from infrascope_core.run_files.sources.imported import Look, import_folder, is_import
from infrascope_core.store.atomic import ASIDE_SUFFIX, sweep
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import OnProgress

_LATEST = timedelta(days=1)
"""A server may get samples so late; of jobs that ended before and have none, there will be none."""
_MOST_NOTES = 3
"""Remarks about single runs that are kept."""


def import_sources(
    folder: DataFolder, on_progress: OnProgress = lambda product, done, total: None, now: datetime | None = None
) -> None:
    """Import what is new in the sources of a data folder that are telemetry.

    A source that fails stops no other, and nothing is lost of what it gave before.

    Parameters
    ----------
    folder : DataFolder
        The data folder and its sources.
    on_progress : callable
        Called with ("importing ...", run files so far, the same).
    now : datetime, optional
        Naive UTC.

    Raises
    ------
    SourceError
        A source cannot be reached or read, or says something that cannot be done: one sentence for all.
    StorageError
        The data folder is full.
    """
    failed: list[str] = []
    taken: dict[Path, Path] = {}
    for source in filter(is_import, folder.sources):
        out = import_folder(source, kept_of(folder))
        if taken.setdefault(out, source) != source:
            failed.append(f"{source}: another source is called {out.name} as well, {taken[out]}; rename one")
            continue
        try:
            with folder.lock(f"import {out.name}"):
                sweep(out.glob(f".*{ASIDE_SUFFIX}"))
                _import(folder, source, out, on_progress, now or datetime.now(UTC).replace(tzinfo=None))
        except StorageError:
            raise
        except InfraScopeError as error:
            said = str(error)
            failed.append(said if str(source) in said else f"{source}: {said}")
    if failed:
        raise SourceError("; ".join(failed))


def _import(folder: DataFolder, source: Path, out: Path, on_progress: OnProgress, now: datetime) -> None:
    order, look = load_order(source), Look.last(out)
    files = order.read_from()
    if unfinished := sorted(growing(files)):
        left = tuple(f"{path}: is still being written; it is left for the next look" for path in unfinished)
        replace(look, notes=left).keep(out)
        return
    plan = order.plan(out)
    made = fingerprint(str((plan.naming, plan.host, plan.host_label, plan.full_names, plan.mappings)))
    state = fingerprint(order.model_dump_json(), *(LocalFile(path).fingerprint for path in files))
    of_files, anew = isinstance(order, FilesOrder), look.made not in ("", made)
    if of_files and (made, state) == (look.made, look.state):
        return
    # what was read and then put away is not made again, unless it would be something else
    done = frozenset() if anew else frozenset(accepted(folder)["run_key"])
    empty = () if anew or of_files else look.empty
    outcomes: list[Outcome] = []
    try:
        work = order.work(replace(plan, again=anew or of_files, done=done.union(empty)), now, standing=True)
        for number, outcome in enumerate(work.outcomes, start=1):
            outcomes.append(outcome)
            on_progress(f"importing {source.name}", number, number)
        of_runs = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
        notes = [*work.notes, *remarks(outcomes), *islice(of_runs, _MOST_NOTES)]
    except NoSamplesError as error:
        if not look.made:  # nothing was ever found: most likely the wrong thing is asked for
            raise
        notes = [str(error)]
    empty = (*empty, *(run_key(each.path) for each in outcomes if each.end is not None and each.end < now - _LATEST))
    Look(made, state, tuple(dict.fromkeys(empty)), tuple(notes)).keep(out)
