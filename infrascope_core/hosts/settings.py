"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class HostSettings(Section):
    """Hosts of one job against each other (Reveal, sections 3.1 and 6: HugePages)."""

    start_within_s: float = Field(60.0, ge=0)
    """Runs of one model, task and dataset that start this close together, on different hosts, are one job."""
    window_s: float = Field(1.0, gt=0)
    """Length of the windows in which hosts are compared, seconds."""
    least_windows: int = Field(10, ge=1)
    """Fewest shared windows by which persistence is judged."""
    limit: float = Field(3.5, gt=0)
    """Robust z from which a host departs (Iglewicz and Hoaglin, 1993)."""
    persistence: float = Field(0.9, gt=0, le=1)
    """Least share of the windows in which it must do so on the same side."""
    least_relative: float = Field(0.1, ge=0, le=1)
    """Least difference, as a share of the larger value: what is exact need not be large."""
    least_scale: float = Field(0.02, gt=0)
    """The spread is never taken as less than this share of the larger value: equal hosts have none at all, and no
    host is infinitely far from them. The robust z is at most its inverse, 50."""
