"""The settings of the stage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infrascope_core.section import Section


class FeatureSettings(Section):
    """Sliding feature windows, counted in samples; 3 s windows every 1 s at 100 ms (Reveal, section 4.2)."""

    samples: int = Field(30, ge=3)
    stride: int = Field(10, ge=1)


class DetectorSettings(Section):
    """Baselines and detectors (Reveal, section 4.3; docs/adr/0020)."""

    compare_with: Literal["auto", "workload", "reference", "past"] = "auto"
    """Whose windows a run is compared with: its workload's runs (the paper's way); runs of its workload that are
    known to be healthy; its own first windows. `auto` takes healthy runs where a workload has any, else all."""
    reference_runs: tuple[str, ...] = ()
    """Run keys, or patterns of them as on a command line (`train_*`), that are references beside those whose labels
    say that they are healthy. If any is given, labels do not count."""
    across_phases: bool = False
    """Whether a run's references may be of another phase. Then their places in the run mean nothing."""
    past_windows: int = Field(300, ge=30)
    """Windows at the start of a run that are its own past: 5 minutes with a stride of 1 s."""
    min_windows: int = Field(30, ge=2)
    """Fewest feature windows to fit a baseline on; a workload with fewer is compared with its platform."""
    max_windows: int = Field(4_000, ge=60)
    """Most windows of a baseline, in stretches from all its runs, so that memory stays flat: at 400 metrics and 13
    features the matrix has 166 MB, and a fit stays below 2 GiB."""
    scale: Literal["robust", "plain"] = "robust"
    """Median and inter-decile range, or the paper's mean and standard deviation."""
    place_windows: int = Field(10, ge=0)
    """A window is compared with those at most this many places away in other runs of the same program ..."""
    place_share: float = Field(0.1, ge=0)
    """... or this share of its own place: what is late in a run is late by more."""
    flag_quantile: float = Field(0.99, gt=0, lt=1)
    """Quantile of the baseline's own scores above which a detector flags (Reveal, section 4.3)."""
    alarm_probability: float = Field(1e-4, gt=0, lt=1)
    """A stretch of windows is anomalous if it is less probable than this in a normal run (`alarms`)."""
    allowance: float = Field(1.0, ge=0)
    """Surprisal that adds nothing to a stretch of windows that are anomalous together: one normal window in ten."""
    pca_variance: float = Field(0.95, gt=0, le=1)
    """Share of the variance that the principal components keep (Reveal, section 4.3)."""
    trees: int = Field(100, ge=1)
    random_state: int = 0
    lasting_windows: int = Field(10, ge=1)
    """Windows over which deviations are averaged, for those that are sustained: 10 s with a stride of 1 s."""
    peak_metrics: int = Field(8, ge=1)
    """Metrics, the most deviating ones, that the detector of sustained deviations looks at."""
    reasons_per_window: int = Field(10, ge=1)
