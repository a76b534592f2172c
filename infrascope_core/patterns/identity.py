"""Which workload is this? Whether a run looks like the workload that its name claims, like another, or like none.

What belongs here: distances between signatures, and how far from its own workload a run usually is (conformal
prediction: Vovk, Gammerman and Shafer, 2005, with the distance to the nearest neighbour as nonconformity).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.settings import IdentitySettings
from infrascope_core.patterns.signatures import Signature, comparable
from infrascope_core.patterns.tables import RUN_IDENTITY

AS_CLAIMED, OTHER, UNKNOWN, TOO_FEW = "as_claimed", "other", "unknown", "too_few_runs"
_FLOOR = 0.05
"""Of a figure that hardly varies within workloads, this share of its standard deviation over all runs counts as if it
did: else a figure that is constant in a few runs would decide alone."""
_CONSTANT = 1e-6
"""Variance up to which a figure is the same in all runs; shares and ranks are between 0 and 1."""
_DIGITS = 9
"""Distances are rounded, so that those of equal runs are equal however they are summed up."""
_AT_ONCE = 256
"""Runs that are left out in one step ..."""
_NUMBERS = 2**22
"""... and numbers of one temporary array: what bounds the memory."""
_DIFFERENCES = 3
"""Most metric groups that are named."""


def run_identity(runs: Sequence[Signature], groups: Sequence[str], settings: IdentitySettings) -> pl.DataFrame:
    """Hold each run against the workloads of its platform.

    Parameters
    ----------
    runs : sequence of Signature
        All of a platform.
    groups : sequence of str
        The metric groups of their figures.
    settings : IdentitySettings
        `false_unknown`, `usual_runs`.

    Returns
    -------
    polars.DataFrame
        Table `run_identity`. A run is `as_claimed` if it is as near to another run of its workload as the others are
        to theirs (but for a share `false_unknown` of them); else `other` if that holds for another workload, and
        `unknown` if for none. Where so few runs have another of their workload that none could be unknown, or the
        run's own workload has no other run, it is `too_few_runs`.

    Notes
    -----
    Runs of one workload that overlap in time are hosts of one job: they are not held against each other, because what
    they have in common may be the job's rather than the workload's. Each run is judged by weights and limits that are
    made without it, so that a run that is not what it claims does not widen the limits that it is held to.
    """
    if not runs:
        return RUN_IDENTITY.empty()
    fleet = _Fleet.of(runs)
    asked = _asked(len(runs), settings)
    usual = fleet.from_own(asked)
    rows = []
    for number, run in enumerate(runs):
        others = usual[asked != number, number]
        found = _Found.of(fleet, number, others[np.isfinite(others)])
        status = found.status(settings)
        differs = status in (OTHER, UNKNOWN) and found.unlike is not None
        rows.append(
            {
                "platform": run.workload.split("/")[0],
                "run_key": run.run_key,
                "host": run.host,
                "claimed": run.workload,
                "status": status,
                "nearest": None if found.nearest is None else runs[found.nearest].workload,
                "nearest_run": None if found.nearest is None else runs[found.nearest].run_key,
                "distance": found.distance(found.nearest),
                "claimed_distance": found.distance(found.kin),
                "p_value": found.p(found.nearest),
                "claimed_p_value": found.p(found.kin),
                "compared_runs": len(found.usual),
                "differs_in": [groups[i] for i in fleet.differences(number, found.unlike)] if differs else [],
            }
        )
    return pl.DataFrame(rows, schema=RUN_IDENTITY.schema, orient="row").sort("platform", "run_key", "host")


def _asked(runs: int, settings: IdentitySettings) -> Ints:
    """Numbers of the runs that say what is usual: all, or a seeded choice."""
    if runs <= settings.usual_runs:
        return np.arange(runs)
    return np.sort(np.random.default_rng(0).choice(runs, settings.usual_runs, replace=False))


def runs_needed(settings: IdentitySettings) -> int:
    """Runs with another of their workload that it takes for any to be unknown: the least p must be low enough."""
    return math.ceil(1 / settings.false_unknown - 1 - 1e-9)


@dataclass(frozen=True, eq=False)
class _Found:
    """A run among the others.

    Attributes
    ----------
    away : ndarray, runs
        Its distance from each; infinite where they are not held against each other.
    nearest, kin : int or None
        The nearest run of all, and the nearest of its own workload.
    usual : ndarray
        Distances of other runs from the nearest of their workloads.
    """

    away: Array
    nearest: int | None
    kin: int | None
    usual: Array

    @classmethod
    def of(cls, fleet: _Fleet, number: int, usual: Array) -> _Found:
        away = np.where(fleet.together[number], np.inf, fleet.distances(number))
        everyone = np.arange(len(away))
        return cls(away, _nearest(away, everyone), _nearest(away, everyone[fleet.claim == fleet.claim[number]]), usual)

    @property
    def unlike(self) -> int | None:
        """What it is compared with where it is not what it claims."""
        return self.nearest if self.kin is None else self.kin

    def distance(self, other: int | None) -> float | None:
        return None if other is None else float(self.away[other])

    def p(self, other: int | None) -> float | None:
        if other is None or not len(self.usual):
            return None
        return (1 + np.count_nonzero(self.usual >= self.away[other])) / (1 + len(self.usual))

    def status(self, settings: IdentitySettings) -> str:
        nearest, own = self.p(self.nearest), self.p(self.kin)
        if len(self.usual) < runs_needed(settings) or nearest is None or own is None:
            return TOO_FEW
        if own > settings.false_unknown:
            return AS_CLAIMED
        return OTHER if nearest > settings.false_unknown else UNKNOWN


def _nearest(away: Array, among: Ints) -> int | None:
    among = among[np.isfinite(away[among])]
    return int(among[np.argmin(away[among])]) if len(among) else None


@dataclass(frozen=True, eq=False)
class _Fleet:
    """The runs of a platform by what can be compared.

    Attributes
    ----------
    figures : ndarray, runs x figures x 3
        0 where they are not known.
    known : ndarray of bool, runs x figures
    claim : ndarray of int, runs
        Number of the workload that each claims.
    together : ndarray of bool, runs x runs
        They overlap in time, and claim one workload; each with itself.
    weights : ndarray, runs x figures
        How much each figure counts, without that run.
    """

    figures: Array
    known: Mask
    claim: Ints
    together: Mask
    weights: Array

    @classmethod
    def of(cls, runs: Sequence[Signature]) -> _Fleet:
        claim = np.unique([run.workload for run in runs], return_inverse=True)[1].astype(np.int64)
        figures = comparable(runs)
        known: Mask = np.array(np.isfinite(figures).all(axis=-1))
        figures = np.where(known[..., None], figures, 0.0)
        start = np.array([run.start for run in runs], dtype="datetime64[us]")
        end = np.array([run.end for run in runs], dtype="datetime64[us]")
        overlap = (start[:, None] <= end[None, :]) & (start[None, :] <= end[:, None])
        together = overlap & (claim[:, None] == claim[None, :])
        return cls(figures, known, claim, together, _weights(figures, known, claim))

    def distances(self, number: int) -> Array:
        """Distance of a run from each: root of the weighted mean square over the figures that both have."""
        weights = self.weights[number]
        common = self.known & self.known[number] & (weights > 0)
        return _mean((self._squares(number) * common) @ weights, common.sum(axis=-1))

    def from_own(self, asked: Ints) -> Array:
        """Distance of some runs from the nearest other of their workload, when another one is left out.

        Parameters
        ----------
        asked : ndarray of int
            Numbers of runs, sorted.

        Returns
        -------
        ndarray, asked x runs
            Infinite where there is no other.
        """
        found = np.full((len(asked), len(self.claim)), np.inf)
        for workload in range(int(self.claim.max()) + 1):
            own = np.flatnonzero(self.claim == workload)
            of_workload = np.flatnonzero(self.claim[asked] == workload)
            rows = max(1, _NUMBERS // (len(own) * max(_AT_ONCE, self.figures[0].size)))
            for first in range(0, len(of_workload), rows):
                some = of_workload[first : first + rows]
                found[some] = self._from_own(asked[some], own)
        return found

    def _from_own(self, some: Ints, own: Ints) -> Array:
        """The same for some of the runs of a workload, `own`: some x runs."""
        runs = len(self.claim)
        found = np.empty((len(some), runs))
        pairs = ((self.figures[some, None] - self.figures[None, own]) ** 2).sum(axis=-1)
        common = (self.known[some, None] & self.known[None, own]).astype(np.float64)
        pairs *= common
        for first in range(0, runs, _AT_ONCE):
            left_out = np.arange(first, min(first + _AT_ONCE, runs))
            weights = self.weights[left_out].T
            away = _mean(pairs @ weights, common @ (weights > 0).astype(np.float64))
            away[self.together[np.ix_(some, own)]] = np.inf
            here = np.flatnonzero(np.isin(left_out, own))
            away[:, np.searchsorted(own, left_out[here]), here] = np.inf
            found[:, left_out] = away.min(axis=1, initial=np.inf)
        return found

    def differences(self, number: int, other: int | None) -> list[int]:
        """Numbers of the metric groups in which a run is most unlike another one."""
        both = self.known[number] & self.known[other]
        size = (self._squares(number)[other] * self.weights[number] * both).reshape(2, -1).sum(axis=0)
        order = np.argsort(-np.round(size, _DIGITS), kind="stable")[:_DIFFERENCES]
        return [int(group) for group in order if size[group] > 0]

    def _squares(self, number: int) -> Array:
        apart = self.figures - self.figures[number]
        apart *= apart
        # a sum along so short an axis takes ten times as long
        first, second, third = np.moveaxis(apart, -1, 0)
        squares: Array = first + second + third
        return squares


def _mean(squares: Array, figures: Array | Ints) -> Array:
    mean = np.divide(squares, figures, out=np.full(squares.shape, np.inf), where=figures > 0)
    root: Array = np.sqrt(np.round(mean, _DIGITS))
    return root


def _weights(figures: Array, known: Mask, claim: Ints) -> Array:
    """How much each figure counts, when one run is left out: runs x figures.

    The inverse of its variance within workloads (linear discriminant analysis with a diagonal covariance; Fisher,
    1936), 0 where it is the same in all runs or no workload has two.
    """
    runs, count, _ = figures.shape
    within, freedom = np.zeros(count), np.zeros(count)
    own, own_freedom = np.zeros((runs, count)), np.zeros((runs, count))
    for workload in np.unique(claim):
        of_workload = claim == workload
        own[of_workload], members = _left_out(figures[of_workload], known[of_workload])
        own_freedom[of_workload] = known[of_workload] & (members > 1)
        within += _squares(figures[of_workload], known[of_workload])
        freedom += np.maximum(members - 1, 0)
    apart, everyone = _left_out(figures, known)
    total = np.maximum(_squares(figures, known) - apart, 0) / np.maximum(everyone - known - 1, 1)
    left = freedom - own_freedom
    inside = np.maximum(within - own, 0) / np.maximum(left, 1)
    scale = np.sqrt(inside) + _FLOOR * np.sqrt(total)
    useful = (left >= 1) & (total > _CONSTANT)
    return np.divide(1.0, scale**2, out=np.zeros_like(scale), where=useful)


def _squares(figures: Array, known: Mask) -> Array:
    """Sum over runs of the squared distance from their mean, a figure."""
    members = known.sum(axis=0)
    mean = figures.sum(axis=0) / np.maximum(members, 1)[:, None]
    squares: Array = (((figures - mean) ** 2).sum(axis=-1) * known).sum(axis=0)
    return squares


def _left_out(figures: Array, known: Mask) -> tuple[Array, Ints]:
    """By how much that sum is smaller without a run, runs x figures; and how many runs have the figure."""
    members = known.sum(axis=0)
    mean = figures.sum(axis=0) / np.maximum(members, 1)[:, None]
    squares = ((figures - mean) ** 2).sum(axis=-1) * known
    return squares * np.where(members > 1, members / np.maximum(members - 1, 1), 0.0), members
