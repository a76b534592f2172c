"""Pooled comparisons of a data folder: hosts of a job, window lengths, runs of a workload, and what a window costs.

What belongs here: which runs are read, in which portions, and where the result is kept. The methods are in `hosts`,
`agreement`, `similarity` and `latency` (docs/adr/0018).
"""

from infrascope_core.fleet_comparisons.cost import detector_latency
from infrascope_core.fleet_comparisons.jobs import are_hosts_compared, compare_hosts
from infrascope_core.fleet_comparisons.likeness import run_similarity
from infrascope_core.fleet_comparisons.window_lengths import (
    example_timelines,
    hit_rates,
    window_agreement,
    window_settings,
)

__all__ = [
    "are_hosts_compared",
    "compare_hosts",
    "detector_latency",
    "example_timelines",
    "hit_rates",
    "run_similarity",
    "window_agreement",
    "window_settings",
]
