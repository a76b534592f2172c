"""`make bench`: every claim of speed, as a ratio to a peer that is measured in the same run."""

from __future__ import annotations

import platform
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import cluster, collector, detectors, features, fleet, importing, pages, patterns, pipeline, simulator


def main() -> int:
    console = Console(width=110, highlight=False)
    console.print(f"{platform.machine()}, Python {platform.python_version()}; times are the best of several rounds")
    table = Table("what", "figure", "target", "met")
    missed = 0
    for claim in (
        *pipeline.claims(console),
        *fleet.claims(console),
        *cluster.claims(console),
        *features.claims(console),
        *detectors.claims(console),
        *patterns.claims(console),
        *pages.claims(console),
        *simulator.claims(console),
        *importing.claims(console),
        *_collector(console),
    ):
        met = claim.met()
        missed += met is False
        table.add_row(claim.what, claim.figure, claim.target, {True: "yes", False: "NO", None: "-"}[met])
    console.print(table)
    return min(missed, 1) if "--strict" in sys.argv else 0


def _collector(console: Console) -> list[pipeline.Claim]:
    console.print("collector: recording `sleep` at 100 ms for a minute ...")
    figures = collector.measure(60)
    for name, value in figures.items():
        console.print(f"  {name}: {value:.4g}")
    return [
        pipeline.Claim(
            "recorder at 100 ms, CPU time in % of one core (Reveal, 5.3: 1.2 to 1.4 %)",
            figures["percent_of_core"],
            1.4,
            "%",
        )
    ]


sys.exit(main())
