"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class MiningSettings(Section):
    """Frequent itemsets and association rules."""

    min_support: float = Field(0.01, gt=0, le=1)
    """Share of a scope's baskets (1 %, as in the InfraScope notebook)."""
    max_size: int = Field(4, ge=1)
    """Most items of an itemset; longer ones repeat their parts and multiply the table."""
    max_antecedent: int = Field(2, ge=1, le=3)
    """Most items on the left of a rule; with three, mining takes longer and a sentence says less."""
    min_gain: float = Field(0.1, ge=0, lt=1)
    """Least confidence of a rule beyond what the same runs make one expect, and beyond what a part of its left side
    has."""
    max_rules: int = Field(500, ge=1)
    """Most rules of a scope that are stored."""
    max_runs: int = Field(100, ge=3)
    """Largest number of run files of a platform or phase on which rules and orders are tested: a seeded choice, of each
    workload as many, so far as it has them."""
    max_runs_of_workloads: int = Field(1_200, ge=3)
    """Largest number of run files on which those of single workloads are tested, shared evenly among the workloads of
    the data folder: a seeded choice of each."""
    max_alias_runs: int = Field(200, ge=1)
    """Largest number of run files of a platform in which metric groups are compared, to find those that say the same: a
    seeded choice."""
    min_runs: int = Field(3, ge=1)
    """Fewest runs (run and host) of a rule in which both of its sides vary."""
    longest_lag_s: int = Field(5, ge=1)
    """Longest time between two onsets in which one is said to follow the other, seconds."""
    min_joint_onsets: int = Field(10, ge=1)
    """Least number of times that one must follow the other."""
    exchanges: int = Field(9_999, ge=99)
    """How often right sides are exchanged between runs of a workload, to tell a rule from the course of the job."""
    random_state: int = 0
    """Seed of the exchanges, and of the choice of runs."""
    min_baskets: int = Field(100, ge=1)
    """A scope with fewer baskets is not mined: at 1 % support a single basket would make a pattern."""


class IdentitySettings(Section):
    """Whether a run looks like the workload that it claims to be."""

    false_unknown: float = Field(0.09, gt=0, lt=1)
    """Share of the runs that are what they claim, of which it may be denied; 9 % takes 11 other runs."""
    usual_runs: int = Field(300, ge=20)
    """Most runs of a platform whose distances from their own workloads say what is usual, a seeded choice: a share of
    9 % is then met to 1.7 % (the standard deviation of a binomial share), and time grows with the square of the runs
    instead of their cube."""


class PhaseSettings(Section):
    """When the states of a run change."""

    shortest_s: float = Field(10.0, gt=0)
    """Shortest phase, seconds, but never less than four windows; what repeats within less is a state, not a phase."""
