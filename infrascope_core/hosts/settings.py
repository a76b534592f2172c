"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class HostSettings(Section):
    """Hosts of one job against each other (Reveal, sections 3.1 and 6: HugePages)."""

    start_within_s: float = Field(60.0, ge=0)
    """Runs of one model, task and dataset that start within this many seconds of each other, on different hosts, are
    one job."""
    window_s: float = Field(1.0, gt=0)
    """Length of the windows in which hosts are compared, seconds."""
    least_windows: int = Field(10, ge=1)
    """Fewest shared windows by which persistence is judged."""
    limit: float = Field(3.5, gt=0)
    """Robust z (deviation in robust standard deviations) from which a host deviates (Iglewicz and Hoaglin, 1993)."""
    persistence: float = Field(0.9, gt=0, le=1)
    """Least share of the windows in which it must do so on the same side."""
    least_relative: float = Field(0.1, ge=0, le=1)
    """Least difference, as a share of the larger value: a difference that is exact may still be too small to matter."""
    least_scale: float = Field(0.02, gt=0)
    """Least spread, as a share of the larger value, so that the deviation from equal hosts stays finite. The robust z
    is at most its inverse, 50."""
