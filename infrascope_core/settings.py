"""Every tunable: its default, its unit, and where the default comes from.

Settings are frozen pydantic models, so they can be hashed into the fingerprint of a product and carried by
a Dagster resource. Domain knowledge (metric groups, subsystems, claims) is not here but in data files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infrascope_core.errors import SettingsError


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def digest(self) -> str:
        """Short stable hash of all values, for fingerprints."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


class ReaderSettings(_Frozen):
    """Reading of run files."""

    min_fields_for_tabs: int = Field(5, ge=2)
    """Fewer tab-separated header fields than this and commas are tried (notebook of seed 000, loader)."""
    max_bytes: int = Field(2**30, ge=1)
    """Largest unpacked run file, in bytes; the largest of the public data set has about 0.2 GB (FORMAT)."""
    max_columns: int = Field(20_000, ge=2)
    """Most columns of a run file; a two-host file of the public data set has 1,582 (FORMAT)."""


class WindowSettings(_Frozen):
    """Symbolic windows, counted in samples; 10 samples are 1 s at 100 ms (DESIGN section 4)."""

    samples: int = Field(10, ge=1)


class FeatureSettings(_Frozen):
    """Sliding feature windows, counted in samples; 3 s windows every 1 s at 100 ms (Reveal, section 4.2)."""

    samples: int = Field(30, ge=3)
    stride: int = Field(10, ge=1)


class MiningSettings(_Frozen):
    """Frequent itemsets and association rules."""

    min_support: float = Field(0.01, gt=0, le=1)
    """Share of a scope's baskets (seed 000: feasibility at 1 %)."""
    max_size: int = Field(4, ge=1)
    """Longest itemset; longer ones repeat their parts and multiply the table."""
    min_confidence: float = Field(0.6, ge=0, le=1)
    min_baskets: int = Field(100, ge=1)
    """A scope with fewer baskets is not mined: at 1 % support a single basket would make a pattern."""


class DetectorSettings(_Frozen):
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
    features the matrix has 166 MB, and a fit stays below 2 GiB (DESIGN section 7)."""
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
    """Windows over which a metric's lasting deviation is averaged: 10 s with a stride of 1 s."""
    peak_metrics: int = Field(8, ge=1)
    """Metrics, the most deviating ones, that the detector of peaks looks at."""
    reasons_per_window: int = Field(10, ge=1)


class ReanalysisSettings(_Frozen):
    """Telling cumulative counters by how they move (Reveal, appendix B; docs/adr/0016)."""

    min_moves: int = Field(30, ge=1)
    """Fewest moves to judge by: a gauge that falls in one of ten moves shows it within 30 with a chance of 96 %."""
    max_fall_share: float = Field(0.0005, ge=0, lt=1)
    """Falls that are no resets, as a share of the moves; /proc/stat's own counters fall now and then (proc(5))."""
    reset_below: float = Field(0.1, gt=0, lt=1)
    """A fall is a reset if the run's smallest value is below this share of its largest, ..."""
    max_resets: int = Field(2, ge=0)
    """... and the run falls no more often than this."""
    min_pairs: int = Field(1, ge=1)
    """Fewest pairs of successive runs of a host to judge by their order: one is in order by chance half the time."""
    max_broken_pairs: float = Field(0.25, ge=0, lt=1)
    """Share of the pairs of successive runs of a host that may begin below where the earlier one ended (reboots)."""
    steady: float = Field(0.9, gt=0, le=1)
    """Where there are fewer pairs: share of the steps that must rise. A ramp pauses, steady work does not."""


class ClassSettings(_Frozen):
    """Dynamic, event counter or static (Reveal, section 4.2; docs/adr/0016)."""

    event_zeros: float = Field(0.5, gt=0, lt=1)
    """Least share of zeros of an event counter."""
    static_changes: float = Field(0.002, ge=0, lt=1)
    """A metric is static if fewer steps than this change it: at 100 ms, one change in 50 s."""
    static_cv: float = Field(0.0001, ge=0)
    """... or if its deviation within the runs is below this share of its mean: 0.01 % of 64 GB are 6 MB."""


class SelectionSettings(_Frozen):
    """Metric selection (Reveal, section 4.1; docs/adr/0017)."""

    enabled: bool = False
    """Whether window features leave out redundant metrics; the catalogue names them in any case. Not by default:
    what is redundant in normal times tells of faults, by departing from what it was redundant to (docs/adr/0020)."""
    max_correlation: float = Field(0.5, gt=0, le=1)
    """|r| above which one of two metrics is redundant (the paper's)."""
    across_subsystems: bool = False
    """Whether a metric may be represented by one of another subsystem. The paper's clusters know no subsystems; but
    what moves together in normal times need not do so in a fault, and the reason's subsystem would be another's."""
    max_runs: int = Field(10, ge=1)
    """Most runs of a workload whose telemetry is read (a seeded choice): the paper's workloads have 10."""
    random_state: int = 0

    def fitted(self) -> SelectionSettings:
        """What the catalogue rests on: it names redundant metrics whether or not they are left out."""
        return self.model_copy(update={"enabled": True})


class PruningCurveSettings(_Frozen):
    """What selection would keep at other thresholds (Reveal, figure 4)."""

    thresholds: int = Field(90, ge=2)
    """Points of the curve ..."""
    lowest: float = Field(0.1, gt=0, lt=1)
    """... from here ..."""
    highest: float = Field(0.99, gt=0, le=1)
    """... to here (the paper's figure 4)."""
    shrinkage: float = Field(0.05, gt=0, lt=1)
    """Weight of the unit matrix in the correlation matrix before it is inverted for the multi-R2 proxy."""


class HostSettings(_Frozen):
    """Hosts of one job against each other (Reveal, sections 3.1 and 6: HugePages)."""

    start_within_s: float = Field(60.0, ge=0)
    """Runs of one model, task and dataset that start this close together, on different hosts, are one job."""
    window_s: float = Field(1.0, gt=0)
    """Length of the windows in which hosts are compared, seconds."""
    least_windows: int = Field(10, ge=1)
    """Fewer shared windows than this say nothing of persistence."""
    limit: float = Field(3.5, gt=0)
    """Robust z from which a host departs (Iglewicz and Hoaglin, 1993)."""
    persistence: float = Field(0.9, gt=0, le=1)
    """Least share of the windows in which it must do so on the same side."""
    least_relative: float = Field(0.1, ge=0, le=1)
    """Least difference, as a share of the larger value: what is exact need not be large."""
    least_scale: float = Field(0.02, gt=0)
    """The spread is never taken as less than this share of the larger value: equal hosts have none at all, and no
    host is infinitely far from them. The robust z is at most its inverse, 50."""


class AgreementSettings(_Frozen):
    """Window lengths compared (Reveal, section 5.5)."""

    finer: tuple[float, float] = (0.5, 0.5)
    """Window and stride as multiples of the pipeline's own: 1.5 s/0.5 s beside 3 s/1 s."""
    coarser: tuple[float, float] = (5 / 3, 2.0)
    """5 s/2 s beside 3 s/1 s."""
    max_runs: int = Field(8, ge=1)
    """Most runs of a workload (a seeded choice): each is scored three times over."""
    random_state: int = 0


class SimilaritySettings(_Frozen):
    """Runs of a workload compared with their median trace (Reveal, section 5.4)."""

    points: int = Field(200, ge=8)
    """Length to which traces are brought: at 10 runs, 200 metrics and 4 distances each, seconds of work."""
    band: float = Field(0.1, gt=0, le=1)
    """Width of the Sakoe-Chiba band, as a share of the length (Sakoe and Chiba, 1978, and the usual 10 %)."""
    max_runs: int = Field(30, ge=2)
    """Most runs of a workload (a seeded choice)."""
    least_runs: int = Field(6, ge=6)
    """Fewest runs for a p-value: with 5 a two-sided signed-rank test cannot go below 0.0625."""
    alpha: float = Field(0.05, gt=0, lt=1)
    """Level of the test (the paper's)."""
    random_state: int = 0


class LatencySettings(_Frozen):
    """Measuring what a window costs (Reveal, section 5.3)."""

    batches: tuple[int, ...] = (1, 1_000)
    """Windows at once: one as it arrives, and a backlog."""
    rounds: int = Field(7, ge=2)
    """Repetitions, of which the median counts."""


class EvaluationSettings(_Frozen):
    """Figures against labels, and the peers they are put beside (docs/adr/0015)."""

    resamples: int = Field(1_000, ge=1)
    """Bootstrap samples of an interval; percentile intervals want about 1,000 (Efron and Tibshirani, 1993, 13.3)."""
    level: float = Field(0.95, gt=0, lt=1)
    random_state: int = 0
    """Seed of the bootstrap and of the peers' forest."""
    max_buffer: int = Field(10, ge=0)
    """Longest buffer of VUS-PR, in windows: 10 s at a stride of 1 s, about a fault's length in the sample."""
    peer_variance: float = Field(0.95, gt=0, lt=1)
    """Share of the variance that the PCA of the peers keeps; the same as ours."""
    peer_trees: int = Field(100, ge=1)
    """scikit-learn's default."""
    peer_bound: float = Field(100.0, gt=0)
    """Bound of a deviation, in standard deviations; the same as ours (docs/adr/0008)."""


class EpisodeSettings(_Frozen):
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


class ReportSettings(_Frozen):
    """The report on a run."""

    table_rows: int = Field(20, ge=1)
    """Most windows in the report's table, those of the largest surprisal; the number of the others is said."""
    reasons: int = Field(3, ge=1)
    """Most metric-feature pairs of a window in the table (Reveal, appendix C)."""
    few_windows: int = Field(10, ge=2)
    """A run with fewer windows is too short for a verdict to be relied on: three windows of 3 s/1 s belong to its
    opening, and a fault of 5 s fills as many again."""
    vanished_share: float = Field(0.25, gt=0, lt=1)
    """A metric that had values and has none in this last share of a run's windows has disappeared."""
    names: int = Field(5, ge=1)
    """Most names in a sentence about several metrics; the number of the others is said."""


class Settings(_Frozen):
    """All settings of a pipeline run."""

    recipe: str = "default"
    reader: ReaderSettings = ReaderSettings()
    windows: WindowSettings = WindowSettings()
    features: FeatureSettings = FeatureSettings()
    reanalysis: ReanalysisSettings = ReanalysisSettings()
    classes: ClassSettings = ClassSettings()
    selection: SelectionSettings = SelectionSettings()
    pruning_curve: PruningCurveSettings = PruningCurveSettings()
    mining: MiningSettings = MiningSettings()
    detectors: DetectorSettings = DetectorSettings()
    episodes: EpisodeSettings = EpisodeSettings()
    reports: ReportSettings = ReportSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    hosts: HostSettings = HostSettings()
    agreement: AgreementSettings = AgreementSettings()
    similarity: SimilaritySettings = SimilaritySettings()
    latency: LatencySettings = LatencySettings()


Platform = Literal["gpu", "cpu"]


def load_settings(path: str | Path | None) -> Settings:
    """Settings from a YAML file that names only what differs from the defaults; None gives the defaults.

    Raises
    ------
    SettingsError
        The file cannot be read, names an unknown setting, or holds a value out of its range.
    """
    if path is None:
        return Settings()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return Settings.model_validate({} if content is None else content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SettingsError(f"{path}: {where}: {first['msg']}") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{path}: no readable YAML ({str(error).splitlines()[0]})") from None
