"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class EvaluationSettings(Section):
    """Figures against labels, and the peers they are put beside (docs/adr/0015)."""

    resamples: int = Field(1_000, ge=1)
    """Bootstrap samples of an interval; percentile intervals want about 1,000 (Efron and Tibshirani, 1993, 13.3)."""
    level: float = Field(0.95, gt=0, lt=1)
    """Confidence level of the intervals, as a share."""
    random_state: int = 0
    """Seed of the bootstrap and of the peers' forest."""
    max_buffer: int = Field(10, ge=0)
    """Longest buffer of VUS-PR, in windows: 10 s at a stride of 1 s, about a fault's length in the sample."""
    peer_variance: float = Field(0.95, gt=0, lt=1)
    """Share of the variance that the PCA of the peers keeps; the same as ours."""
    peer_trees: int = Field(100, ge=1)
    """Trees of the peers' Isolation Forest; scikit-learn's default."""
    peer_bound: float = Field(100.0, gt=0)
    """Bound of a deviation, in standard deviations; the same as ours (docs/adr/0008)."""
