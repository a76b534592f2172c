"""`make evaluate`: simulate, evaluate every data set, and write docs/evaluation.md with its pictures."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import yaml
from rich.console import Console

from benchmarks.evaluation import simulated
from benchmarks.evaluation.page import Suite, write_page
from infrascope_core.cli.evaluate import show
from infrascope_core.evaluation.data_set import evaluate, load_data_sets
from infrascope_core.settings import load_settings

SUITE = Path(__file__).with_name("suite.yaml")
REPOSITORY = Path(__file__).parents[2]


def main(words: list[str]) -> int:
    asked = _arguments(words)
    console = Console(stderr=True, highlight=False)
    plan = yaml.safe_load(SUITE.read_text(encoding="utf-8"))["simulated"]
    settings = load_settings(asked.settings)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="infrascope-evaluation-", dir=asked.scratch) as folder:
        roots = {"repository": REPOSITORY}
        if asked.real is not None:
            roots["real"] = asked.real
        if not asked.only or plan["name"] in asked.only:
            roots["simulated"] = Path(folder, "runs")
            written = simulated.write(simulated.planned(plan, asked.seeds, asked.workloads), roots["simulated"])
            console.print(f"{written} runs simulated after {time.monotonic() - started:.0f} s")
        sets = [s for s in load_data_sets(SUITE, roots) if not asked.only or s.name in asked.only]
        result = evaluate(sets, Path(folder, "data"), settings, workers=min(len(sets), os.cpu_count() or 1))
    show(result)
    suite = Suite(sets, plan, asked.seeds, real=asked.real is not None)
    if asked.json is not None:
        asked.json.write_text(result.as_json(), encoding="utf-8")
    page = write_page(result, suite, settings.evaluation, asked.docs)
    console.print(f"{page} after {time.monotonic() - started:.0f} s")
    return 0


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation", description=__doc__)
    parser.add_argument("--real", type=Path, help="folder of real data sets, as suite.yaml names them")
    parser.add_argument("--seeds", choices=["evaluation", "development"], default="evaluation")
    parser.add_argument("--workloads", type=int, help="simulate the first so many workloads only")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these data sets only")
    parser.add_argument("--settings", type=Path, help="settings that differ from the defaults")
    parser.add_argument("--docs", type=Path, default=REPOSITORY / "docs", help="folder for the page and its pictures")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    parser.add_argument("--scratch", type=Path, help="folder for run files and lakes, some 5 GB")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
