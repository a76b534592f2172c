"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class EpisodeSettings(Section):
    """Episodes: anomalous windows merged, and the symbolic states around them (docs/adr/0019)."""

    gap: int = Field(2, ge=0)
    """Most windows without an alarm between two of one episode: at a stride of 1 s, windows of 3 s that are this
    close share samples or touch."""
    carrying_share: float = Field(0.2, gt=0, le=1)
    """Share of the evidence from which a subsystem carries an episode: an even split over the five watched ones."""
    metrics: int = Field(20, ge=1)
    """Most metrics that an episode names."""
    claims: int = Field(5, ge=1)
    """Most claims of an episode."""
    context_least: int = Field(5, ge=1)
    """Fewest windows before and after an episode whose states are compared with its own; below, one window of
    another state could be the most frequent."""
    context_most: int = Field(30, ge=1)
    """Most windows before and after; at a stride of 1 s half a minute, so that other phases stay out. A longer hole
    in the sampling ends an episode."""
    rule_confidence: float = Field(0.9, gt=0, le=1)
    """Least confidence of a mined rule that an episode can break: it fails in at most a tenth of its baskets."""
    broken_share: float = Field(0.5, ge=0, lt=1)
    """A rule is broken if its left side holds and its right side does not in more than this share of the
    episode's baskets."""
    broken_rules: int = Field(3, ge=0)
    """Most broken rules that an episode names."""


class ReportSettings(Section):
    """The report on a run."""

    table_rows: int = Field(20, ge=1)
    """Most windows in the report's table, those of the largest surprisal; the others are counted."""
    offsets: int = Field(8, ge=1)
    """Most metrics that are named where a run differs as a whole; the others are counted."""
    reasons: int = Field(3, ge=1)
    """Most metric-feature pairs of a window in the table (Reveal, appendix C)."""
    few_windows: int = Field(10, ge=2)
    """A run with fewer windows is too short for a verdict to be relied on: three windows of 3 s/1 s belong to its
    opening, and a fault of 5 s fills as many again."""
    vanished_share: float = Field(0.25, gt=0, lt=1)
    """A metric that had values and has none in this last share of a run's windows has disappeared."""
    names: int = Field(5, ge=1)
    """Most names in a sentence about several metrics; the others are counted."""
