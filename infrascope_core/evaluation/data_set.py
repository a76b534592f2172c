"""Data sets as data: where runs lie, who is reference, under which settings; and the evaluation of several of them.

What belongs here: the description that a suite file or a command line gives, and what is done with it, in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infrascope_core.errors import InfraScopeError, SettingsError
from infrascope_core.evaluation.judgement import Judgement, judge
from infrascope_core.evaluation.report import figures
from infrascope_core.evaluation.split import (
    Mode,
    Split,
    find_labelled,
    split_by_phase,
    split_by_reference,
    split_healthy,
    split_unlabelled,
)
from infrascope_core.settings import Settings
from infrascope_core.store.product import OnProgress


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reference(_Described):
    """Who is the reference: at most one of these; by default the earlier half of each workload's healthy runs."""

    paths: tuple[Path, ...] = ()
    """Files and folders; runs there are not judged, and healthy unless their labels hold faults."""
    phase: str | None = None
    """The healthy runs of this phase stand for the other phases of their workload."""
    mode: Mode | None = None
    """Nobody knows of a healthy run: each run is judged by the others of its workload; or alone, or by the other hosts
    of its job, in a data folder of its own. Labels are only looked at afterwards."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Reference:
        if sum(map(bool, (self.paths, self.phase, self.mode))) > 1:
            raise ValueError("a reference is given by paths, by a phase or by a mode, not by several of them")
        return self


class Target(_Described):
    """What a figure should reach; the page says whether it does."""

    figure: str
    part: str | None = None
    method: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    above: tuple[str, ...] = ()
    """Methods whose figure it should exceed, on every judged run."""


class DataSet(_Described):
    """A set of labelled runs that is evaluated on its own: one lake, one set of models.

    `settings` names what differs from the defaults, as a settings file does: a set sampled once a minute has
    windows of other lengths.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    about: str = ""
    paths: tuple[Path, ...] = Field(min_length=1)
    reference: Reference = Reference()
    settings: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """What came out.

    Attributes
    ----------
    judgements : dict of str to Judgement
        By data set.
    splits : dict of str to Split
        By data set.
    settings : dict of str to Settings
        By data set.
    unjudged : dict of str to str
        Why a data set could not be judged at all.
    figures : polars.DataFrame
        Schema `report.FIGURES`.
    """

    judgements: Mapping[str, Judgement]
    splits: Mapping[str, Split]
    settings: Mapping[str, Settings]
    unjudged: Mapping[str, str]
    figures: pl.DataFrame

    def as_json(self) -> str:
        """Everything as one document, the same for the same runs and settings."""
        sets = {
            name: {
                "settings": self.settings[name].model_dump(mode="json"),
                "reference": [run.key for run in self.splits[name].reference],
                "notes": judgement.notes,
                "problems": [{"file": path.name, "problem": problem} for path, problem in judgement.problems],
                **{
                    table: json.loads(getattr(judgement, table).drop("data_set").write_json())
                    for table in ("runs", "events", "separation")
                },
            }
            for name, judgement in self.judgements.items()
        }
        content = {"figures": json.loads(self.figures.write_json()), "data_sets": sets}
        return json.dumps(content, indent=1) + "\n"


def load_data_sets(path: Path, roots: Mapping[str, Path]) -> list[DataSet]:
    """Read a suite file: a list of data sets, each with a `root` that its paths lie below.

    Parameters
    ----------
    path : Path
        YAML.
    roots : mapping
        Folder by root's name. A data set is passed over whose root is not given, or whose first path does not exist
        below it.

    Raises
    ------
    SettingsError
        The file cannot be read or names something unknown.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["data_sets"]
        found = []
        for entry in entries:
            content = dict(entry)
            root = roots.get(content.pop("root"))
            data_set = DataSet.model_validate(content)
            if root is not None and (root / data_set.paths[0]).exists():
                found.append(_below(data_set, root))
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (OSError, TypeError, KeyError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: no readable list of data sets ({error})") from None
    return found


def _below(data_set: DataSet, root: Path) -> DataSet:
    reference = data_set.reference.model_copy(update={"paths": tuple(root / p for p in data_set.reference.paths)})
    return data_set.model_copy(update={"paths": tuple(root / p for p in data_set.paths), "reference": reference})


def settings_of(data_set: DataSet, base: Settings) -> Settings:
    """The base settings with what the data set changes.

    Raises
    ------
    SettingsError
        It names a setting that does not exist, or a value out of range.
    """
    try:
        return Settings.model_validate(_merged(base.model_dump(), data_set.settings))
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"{data_set.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in change.items():
        both = isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
        merged[name] = _merged(base[name], value) if both else value
    return merged


def divide(data_set: DataSet, links: Path) -> tuple[Split, list[tuple[Path, str]]]:
    """Find the labelled runs and divide them into reference and judged ones.

    Returns
    -------
    split : Split
    problems : list of (path, sentence)
        See `find_labelled`.
    """
    runs, problems = find_labelled(data_set.paths)
    if data_set.reference.paths:
        reference, more = find_labelled(data_set.reference.paths, named_healthy=True)
        named = {run.path for run in reference}
        problems = [(path, problem) for path, problem in problems if path not in named]
        return split_by_reference(runs, reference), list(dict.fromkeys(problems + more))
    if data_set.reference.phase:
        return split_by_phase(runs, data_set.reference.phase, links), problems
    if data_set.reference.mode:
        return split_unlabelled(runs, data_set.reference.mode), problems
    return split_healthy(runs), problems


def evaluate(
    data_sets: Sequence[DataSet],
    data: Path,
    settings: Settings,
    *,
    on_set: Callable[[str], OnProgress] = lambda name: lambda product, done, total: None,
    workers: int = 1,
) -> Evaluation:
    """Evaluate data sets.

    Parameters
    ----------
    data_sets : sequence of DataSet
        Names are distinct.
    data : Path
        Each set fills a new folder of its name below it.
    settings : Settings
        Of those sets that do not change them.
    on_set : callable
        Called with the name of each data set; returns the callback of its progress.
    workers : int
        Processes that data sets are shared among, whose progress is not told; 1 takes them one after another, here.

    Raises
    ------
    InfraScopeError
        No data set can be judged. One that cannot, beside others that can, is listed in the result.
    """
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(_judged, data_sets, repeat(data), repeat(settings)))
    else:
        parts = [_judged(data_set, data, settings, on_set(data_set.name)) for data_set in data_sets]
    named = {data_set.name: part for data_set, part in zip(data_sets, parts, strict=True)}
    unjudged = {name: part for name, part in named.items() if isinstance(part, str)}
    judged = {name: part for name, part in named.items() if not isinstance(part, str)}
    if not judged:
        raise InfraScopeError("; ".join(unjudged.values()) or "there is no data set to evaluate")
    judgements = {name: judgement for name, (judgement, _, _) in judged.items()}
    return Evaluation(
        judgements,
        {name: split for name, (_, split, _) in judged.items()},
        {name: under for name, (_, _, under) in judged.items()},
        unjudged,
        figures(judgements.values(), settings.evaluation),
    )


def _judged(
    data_set: DataSet,
    data: Path,
    settings: Settings,
    on_progress: OnProgress = lambda product, done, total: None,
) -> tuple[Judgement, Split, Settings] | str:
    """One data set's judgement, its division, and the settings that held; or why it could not be judged."""
    changed = settings_of(data_set, settings)
    split, problems = divide(data_set, data / f"{data_set.name}.links")
    try:
        judgement = judge(data_set.name, split, data / data_set.name, changed, on_progress=on_progress)
    except InfraScopeError as error:
        return "; ".join([str(error), *_sentences(problems)])
    judgement = replace(judgement, problems=(*problems, *judgement.problems))
    if judgement.runs.is_empty():
        why = "; ".join([*_sentences(judgement.problems), *judgement.notes])
        return f"{data_set.name}: no run could be judged ({why})"
    return judgement, split, changed


def _sentences(problems: Sequence[tuple[Path, str]], most: int = 3) -> list[str]:
    rest = [f"and {len(problems) - most} more"] if len(problems) > most else []
    return [f"{path}: {problem}" for path, problem in problems[:most]] + rest
