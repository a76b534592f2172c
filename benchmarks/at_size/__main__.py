"""`make bench-fleet`: what the whole public data set would cost on the machine at hand, each figure from fresh
processes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.at_size import fits, mining, runs
from benchmarks.pipeline import Claim

PARTS: dict[str, Callable[[Console], Iterator[Claim]]] = {
    "runs": runs.claims,
    "memory": runs.memory,
    "fits": fits.claims,
    "mining": mining.claims,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures to this file as JSON")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part")
    parser.add_argument("--strict", action="store_true", help="fail if a target is not met")
    asked = parser.parse_args()
    console = Console(width=110, highlight=False)
    machine = f"{os.cpu_count()} × {platform.machine()}, Python {platform.python_version()}"
    console.print(machine)
    table, figures = Table("what", "figure", "target", "met"), []
    for name in asked.only or PARTS:
        for claim in PARTS[name](console):
            met = claim.met()
            table.add_row(claim.what, claim.figure, claim.target, {True: "yes", False: "NO", None: "-"}[met])
            figures.append(
                {"what": claim.what, "value": claim.value, "limit": claim.limit, "unit": claim.unit, "met": met}
            )
            if asked.out:  # what was measured is not lost when a later part fails
                asked.out.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1) + "\n")
    console.print(table)
    return int(asked.strict and any(figure["met"] is False for figure in figures))


sys.exit(main())
