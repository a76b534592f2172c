"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class ReanalysisSettings(Section):
    """Recognising cumulative counters by how they move (Reveal, appendix B; docs/adr/0016)."""

    min_moves: int = Field(30, ge=1)
    """Fewest moves to judge by: a gauge that falls in one of ten moves shows it within 30 with a chance of 96 %."""
    max_fall_share: float = Field(0.0005, ge=0, lt=1)
    """Falls that are no resets, as a share of the moves; /proc/stat's own counters fall now and then (proc(5))."""
    reset_below: float = Field(0.1, gt=0, lt=1)
    """A fall is a reset if the run's smallest value is below this share of its largest value, ..."""
    max_resets: int = Field(2, ge=0)
    """... and the number of falls in the run is at most this."""
    min_pairs: int = Field(1, ge=1)
    """Fewest pairs of successive runs of a host to judge by their order: one is in order by chance half the time."""
    max_broken_pairs: float = Field(0.25, ge=0, lt=1)
    """Share of the pairs of successive runs of a host that may begin below where the earlier one ended (reboots)."""
    steady: float = Field(0.9, gt=0, le=1)
    """Where there are fewer pairs: share of the steps that must rise. A ramp pauses, steady work does not."""
    most_falls: float = Field(0.1, ge=0, lt=1)
    """A metric whose name says that it is a counter is one unless it falls in more than this share of its moves: under
    such a name, some collectors report rates."""


class ClassSettings(Section):
    """Dynamic, event counter or static (Reveal, section 4.2; docs/adr/0016)."""

    event_zeros: float = Field(0.5, gt=0, lt=1)
    """Least share of zeros of an event counter."""
    static_changes: float = Field(0.002, ge=0, lt=1)
    """A metric is static if fewer steps than this change it: at 100 ms, one change in 50 s."""
    static_cv: float = Field(0.0001, ge=0)
    """... or if its deviation within the runs is below this share of its mean: 0.01 % of 64 GB are 6 MB."""


class SelectionSettings(Section):
    """Metric selection (Reveal, section 4.1; docs/adr/0017)."""

    enabled: bool = False
    """Whether window features leave out redundant metrics; the catalogue names them in any case. Not by default:
    in a fault, a metric often departs from what it is redundant to in normal times (docs/adr/0020)."""
    max_correlation: float = Field(0.5, gt=0, le=1)
    """Pearson correlation |r| above which one of two metrics is redundant (the paper's)."""
    across_subsystems: bool = False
    """Whether a metric may be represented by one of another subsystem. The paper's clusters know no subsystems; but
    what moves together in normal times need not do so in a fault, and the reason's subsystem would be another's."""
    max_runs: int = Field(10, ge=1)
    """Most runs of a workload whose telemetry is read (a seeded choice): the paper's workloads have 10."""
    random_state: int = 0
    """Seed of the choice of runs."""

    def fitted(self) -> SelectionSettings:
        """What the catalogue rests on: it names redundant metrics whether or not they are left out."""
        return self.model_copy(update={"enabled": True})


class PruningCurveSettings(Section):
    """What selection would keep at other thresholds (Reveal, figure 4)."""

    thresholds: int = Field(90, ge=2)
    """Number of points of the curve ..."""
    lowest: float = Field(0.1, gt=0, lt=1)
    """... from this correlation |r| ..."""
    highest: float = Field(0.99, gt=0, le=1)
    """... to this correlation |r| (the paper's figure 4)."""
    shrinkage: float = Field(0.05, gt=0, lt=1)
    """Weight of the unit matrix in the correlation matrix before it is inverted for the multi-R2 proxy."""
    most_metrics: int = Field(1_000, ge=2)
    """Of more metrics than these, so many are looked at, spread evenly over their names: time grows with the cube of
    their number, and memory with its square."""
