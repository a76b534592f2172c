"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class PageSettings(Section):
    """The page of a run."""

    most_charts: int = Field(24, ge=1)
    """Largest number of evidence charts."""
    least_charts: int = Field(8, ge=0)
    """Smallest number of them, where a run has so many metrics: filled with what departs most, alarm or not."""
    host_charts: int = Field(6, ge=0)
    """Largest number of charts that show a host beside the others of its job."""
    points: int = Field(640, ge=50)
    """Points of a trace over the whole run, each the least and the largest of its samples."""
    around_s: float = Field(30.0, ge=0)
    """Seconds before and after an episode that are kept at full sampling; of a long one, those around its peak."""
    detailed_episodes: int = Field(3, ge=0)
    """Largest number of episodes that are kept so, the worst first."""
    columns: int = Field(300, ge=10)
    """Columns of the strips and of the heat map over the whole run."""
