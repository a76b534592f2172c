"""Which workload is this: leave one run out, and leave one workload out, beside the classifiers of the field.

What belongs here: the measurement. Levels are fitted without the run that is judged, as it would arrive; the peers get
the same figures of the runs, and limits by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.numeric import Array
from infrascope_core.patterns.identity import AS_CLAIMED, OTHER, TOO_FEW, UNKNOWN, run_identity
from infrascope_core.patterns.scopes import unaliased_groups
from infrascope_core.patterns.settings import IdentitySettings
from infrascope_core.patterns.signatures import Signature, comparable, signatures
from infrascope_core.recipes import recipe_of
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.discretization import baskets, fit_thresholds
from infrascope_core.symbols.tables import CURATED_METRICS, GROUP_WINDOWS

OURS, FOREST, MACHINE = "nearest run", "random forest", "linear SVM"
_TREES = 300
_FOLDS = 5


@dataclass
class Score:
    """Counts of one method.

    Attributes
    ----------
    runs, right, wrong, unknown : int
        Runs of workloads that others of are known, and what was said of them.
    strangers, recognized : int
        Runs of a workload of which no other is known, and those that are called unknown.
    mislabelled, named : int
        Runs under another workload's name, and those whose workload is named.
    """

    runs: int = 0
    right: int = 0
    wrong: int = 0
    unknown: int = 0
    strangers: int = 0
    recognized: int = 0
    mislabelled: int = 0
    named: int = 0


def leave_one_out(folder: DataFolder, platform: str) -> dict[str, Score]:
    """Judge each run of a platform without itself, and without its workload; by method."""
    fleet = _Runs(folder, platform)
    settings = folder.settings.identity
    scores = {OURS: Score(), FOREST: Score(), MACHINE: Score()}
    for key, workload in fleet.workload.items():
        others = sum(name == workload for name in fleet.workload.values()) - 1
        if not others:
            continue
        own = fleet.signatures(without=[key])
        _known(own, key, settings, scores)
    for workload in sorted(set(fleet.workload.values())):
        keys = [key for key, name in fleet.workload.items() if name == workload]
        found = fleet.signatures(without=keys)
        rest = [one for one in found if one.run_key not in keys]
        for one in (one for one in found if one.run_key in keys):
            _stranger(rest, one, settings, scores)
    return scores


@dataclass
class _Runs:
    folder: DataFolder
    platform: str

    def __post_init__(self) -> None:
        runs = accepted(self.folder).filter(platform=self.platform).sort("run_key")
        self.runs = runs
        self.workload = {key: "/".join(path) for key, *path in runs.select("run_key", *WORKLOAD_KEY).iter_rows()}
        lake = self.folder.lake
        self.groups = unaliased_groups(self.folder, self.platform)
        self.windows = {key: lake.read(GROUP_WINDOWS, key) for key in self.workload}

    def signatures(self, without: Sequence[str]) -> list[Signature]:
        """All runs by levels that are fitted without these."""
        lake, kept = self.folder.lake, [key for key in self.workload if key not in without]
        levels = fit_thresholds(
            lake.files(CURATED_METRICS, kept),
            lake.files(GROUP_WINDOWS, kept),
            self.runs.filter(pl.col("run_key").is_in(kept)),
            recipe_of(self.folder),
            self.groups,
        )
        return [
            one
            for key, workload in self.workload.items()
            for one in signatures(baskets(self.windows[key], levels, self.platform), self.groups, workload)
        ]


def _known(runs: list[Signature], key: str, settings: IdentitySettings, scores: dict[str, Score]) -> None:
    groups = [str(i) for i in range(len(runs[0].figures))]
    ours = scores[OURS]
    for own in (run for run in runs if run.run_key == key):
        found = run_identity(runs, groups, settings).filter(run_key=own.run_key, host=own.host).row(0, named=True)
        if found["status"] == TOO_FEW:
            continue
        ours.runs += 1
        ours.right += found["status"] == AS_CLAIMED
        ours.wrong += found["status"] == OTHER
        ours.unknown += found["status"] == UNKNOWN
        for claim in sorted({run.workload for run in runs} - {own.workload}):
            claims = [replace(run, workload=claim) if run is own else run for run in runs]
            said = run_identity(claims, groups, settings).filter(run_key=own.run_key, host=own.host).row(0, named=True)
            ours.mislabelled += 1
            ours.named += said["status"] == OTHER and said["nearest"] == own.workload
        rest = [run for run in runs if run.run_key != key]
        for name in (FOREST, MACHINE):
            p, label = _classified(name, rest, own, settings)
            scores[name].runs += 1
            scores[name].unknown += p <= settings.false_unknown
            scores[name].right += p > settings.false_unknown and label == own.workload
            scores[name].wrong += p > settings.false_unknown and label != own.workload


def _stranger(rest: list[Signature], own: Signature, settings: IdentitySettings, scores: dict[str, Score]) -> None:
    groups = [str(i) for i in range(len(own.figures))]
    for claim in sorted({run.workload for run in rest}):
        runs = [*rest, replace(own, workload=claim)]
        found = run_identity(runs, groups, settings).filter(run_key=own.run_key, host=own.host).row(0, named=True)
        if found["status"] != TOO_FEW:
            scores[OURS].strangers += 1
            scores[OURS].recognized += found["status"] == UNKNOWN
    if len({run.workload for run in rest}) < 2:
        return
    for name in (FOREST, MACHINE):
        p, _ = _classified(name, rest, own, settings)
        scores[name].strangers += 1
        scores[name].recognized += p <= settings.false_unknown


def _classified(name: str, rest: list[Signature], own: Signature, settings: IdentitySettings) -> tuple[float, str]:
    """What a classifier says of a run, and the share of the others that it is as unsure of as of this one."""
    x = np.nan_to_num(comparable([*rest, own]).reshape(len(rest) + 1, -1))
    labels = np.array([run.workload for run in rest])
    names, place = np.unique(labels, return_inverse=True)
    if name == FOREST:
        model = RandomForestClassifier(_TREES, oob_score=True, random_state=0, n_jobs=1).fit(x[:-1], labels)
        unsure = 1 - model.oob_decision_function_[np.arange(len(labels)), place]
        new = 1 - model.predict_proba(x[-1:])[0]
        return _p(unsure, float(new.min())), str(names[int(np.argmin(new))])
    model = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
    folds = StratifiedKFold(min(_FOLDS, int(np.bincount(place).min())), shuffle=True, random_state=0)
    out_of_fold = _two_sided(cross_val_predict(model, x[:-1], labels, cv=folds, method="decision_function"))
    new = -_two_sided(model.fit(x[:-1], labels).decision_function(x[-1:]))[0]
    return _p(-out_of_fold[np.arange(len(labels)), place], float(new.min())), str(names[int(np.argmin(new))])


def _two_sided(decision: Array) -> Array:
    """One column a class, also where there are two of them."""
    return decision if decision.ndim == 2 else np.stack([-decision, decision], axis=1)


def _p(unsure: Array, new: float) -> float:
    return float((1 + np.count_nonzero(unsure >= new)) / (1 + len(unsure)))
