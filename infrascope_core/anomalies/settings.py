"""The settings of the stage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infrascope_core.section import Section


class FeatureSettings(Section):
    """Sliding feature windows, counted in samples; 3 s windows every 1 s at 100 ms (Reveal, section 4.2)."""

    samples: int = Field(30, ge=3)
    """Length of a window, in samples: 3 s at 100 ms."""
    stride: int = Field(10, ge=1)
    """From the start of a window to the start of the next, in samples: 1 s at 100 ms."""


class DetectorSettings(Section):
    """Baselines and detectors (Reveal, section 4.3; docs/adr/0020)."""

    compare_with: Literal["auto", "workload", "reference", "past"] = "auto"
    """Whose windows a run is compared with: its workload's runs (the paper's way); runs of its workload that are
    known to be healthy; its own first windows. `auto` takes healthy runs where a workload has any, else all."""
    reference_runs: tuple[str, ...] = ()
    """Run keys, or patterns of them as on a command line (`train_*`), that are references beside those whose labels
    say that they are healthy. If any is given, labels do not count."""
    across_phases: bool = False
    """Whether a run's references may be of another phase. Windows are then compared wherever they lie in the
    run."""
    past_windows: int = Field(300, ge=30)
    """Windows at the start of a run that are its own past: 5 minutes with a stride of 1 s."""
    min_windows: int = Field(30, ge=2)
    """Fewest feature windows to fit a baseline on; a workload with fewer is compared with its platform."""
    max_windows: int = Field(4_000, ge=60)
    """Most windows of a baseline, in stretches from all its runs, so that memory stays flat: at 400 metrics and 13
    features the matrix has 166 MB, and a fit stays below 2 GiB (docs/design.md, Targets)."""
    scale: Literal["robust", "plain"] = "robust"
    """Location and scale of a feature: median and inter-decile range, or the paper's mean and standard deviation."""
    place_windows: int = Field(10, ge=0)
    """A window is compared with those at most this many places away in other runs of the same program ..."""
    place_share: float = Field(0.1, ge=0)
    """... or this share of its own place (in windows from the start), because delays add up in the course of a run."""
    flag_quantile: float = Field(0.99, gt=0, lt=1)
    """Quantile of the baseline's own scores above which a detector flags (Reveal, section 4.3)."""
    alarm_probability: float = Field(2e-4, gt=0, lt=1)
    """Probability in a normal run below which a stretch of windows is anomalous (`alarms`)."""
    allowance: float = Field(1.0, ge=0)
    """Surprisal (decades of probability) that a window may have without adding to its stretch: 1 is what one normal
    window in ten has."""
    pca_variance: float = Field(0.95, gt=0, le=1)
    """Share of the variance that the principal components keep (Reveal, section 4.3)."""
    pca_windows: int = Field(1_200, ge=60)
    """Most windows of a baseline, evenly over all, that principal components are learnt from: of windows that follow
    each other, two share most of their samples."""
    trees: int = Field(100, ge=1)
    """Trees of the Isolation Forest (the default of scikit-learn)."""
    random_state: int = 0
    """Seed of the forest and of the choice of windows."""
    quiet_share: float = Field(0.1, gt=0, le=0.5)
    """Share of a run's windows, the quietest ones, that its own level is taken from (`levels`) ..."""
    longest_incident_s: float = Field(86_400.0, gt=0)
    """... or half of them, where a run lasts more than twice this: the seconds that an incident may last, a day."""
    differs_at: float = Field(10.0, gt=0)
    """A run differs from its references as a whole if a metric's level is this many times as far from theirs as
    theirs are from each other; healthy simulated runs stay below 5."""
    brief_windows: int = Field(3, ge=1)
    """Windows over which deviations are averaged for the detector `bursts`: 3 s with a stride of 1 s ..."""
    brief_s: float = Field(30.0, gt=0)
    """... but no more seconds than this, where windows are far apart."""
    lasting_windows: int = Field(10, ge=1)
    """Windows over which deviations are averaged for the detector `peaks`: 10 s with a stride of 1 s ..."""
    lasting_s: float = Field(100.0, gt=0)
    """... but no more seconds than this and no fewer than 3 windows."""
    peak_metrics: int = Field(8, ge=1)
    """How many metrics, the most deviating ones, make the score of the detector `peaks`."""
    own_range: float = Field(0.97, gt=0, le=1)
    """Quantile of a metric's deviations that is its range where a baseline has one run: its start has nothing like it.
    A run that is judged by itself has 0.7."""
    reasons_per_window: int = Field(10, ge=1)
    """Most reasons of a window, one metric family each."""
