"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class AgreementSettings(Section):
    """Window lengths compared (Reveal, section 5.5)."""

    finer: tuple[float, float] = (0.5, 0.5)
    """Window and stride as multiples of the pipeline's own: 1.5 s/0.5 s beside 3 s/1 s."""
    coarser: tuple[float, float] = (5 / 3, 2.0)
    """The same for longer windows: 5 s/2 s beside 3 s/1 s."""
    max_runs: int = Field(8, ge=1)
    """Most runs of a workload (a seeded choice): each is scored three times over."""
    random_state: int = 0
    """Seed of the choice of runs."""


class ChoiceSettings(Section):
    """What the choices of mining cost and change (steps 5 and 6 of the InfraScope notebook)."""

    supports: tuple[float, ...] = (0.01, 0.005, 0.001)
    """Least shares of the baskets at which frequent itemsets are counted."""
    window_seconds: tuple[float, ...] = (1.0, 2.0, 5.0)
    """Lengths of windows with which rules are mined, seconds; the others are compared with the first."""


class SimilaritySettings(Section):
    """Runs of a workload compared with their median trace (Reveal, section 5.4)."""

    points: int = Field(200, ge=8)
    """Points to which traces are resampled: at 10 runs, 200 metrics and 4 distances each, seconds of work."""
    band: float = Field(0.1, gt=0, le=1)
    """Width of the Sakoe-Chiba band, as a share of the length (Sakoe and Chiba, 1978, and the usual 10 %)."""
    max_runs: int = Field(30, ge=2)
    """Most runs of a workload (a seeded choice)."""
    least_runs: int = Field(6, ge=6)
    """Fewest runs for a p-value: with 5 a two-sided signed-rank test cannot go below 0.0625."""
    alpha: float = Field(0.05, gt=0, lt=1)
    """Significance level of the test, a probability (the paper's)."""
    random_state: int = 0
    """Seed of the choice of runs."""


class LatencySettings(Section):
    """Measuring what a window costs (Reveal, section 5.3)."""

    batches: tuple[int, ...] = (1, 1_000)
    """Windows at once: one as it arrives, and a backlog."""
    rounds: int = Field(7, ge=2)
    """Number of repetitions, of which the median counts."""
