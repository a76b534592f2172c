"""`make evaluate`: what of patterns is true within runs, and which workload a run is: writes docs/patterns.md."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jinja2
import yaml
from rich.console import Console

from benchmarks.evaluation import controls, identities, levels
from benchmarks.evaluation.controls import Mined
from infrascope_core.patterns.rules import worth_reading
from infrascope_core.patterns.tables import GROUP_ALIASES
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import REJECTED_FILES
from infrascope_core.settings import Settings
from infrascope_core.simulate import Job, write_job
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.symbols.tables import BASKETS

SUITE = Path(__file__).with_name("suite.yaml")
REPOSITORY = Path(__file__).parents[2]
_LAG_S = 2.0


@dataclass(frozen=True)
class PatternSet:
    """Runs that are counted on.

    Attributes
    ----------
    path : Path
        Where they lie.
    platform : str
        Which of them.
    sets : int
        How many changed copies are mined; of some controls fewer.
    planted : int
        How many copies something is put into.
    """

    name: str
    about: str
    path: Path
    platform: str
    sets: int
    planted: int


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation.patterns", description=__doc__)
    parser.add_argument("--real", type=Path, help="folder of real data sets, as suite.yaml names them")
    parser.add_argument("--seeds", choices=["evaluation", "development"], default="evaluation")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these data sets only")
    parser.add_argument("--sets", type=int, help="at most so many changed copies of each")
    parser.add_argument("--docs", type=Path, default=REPOSITORY / "docs", help="folder for the page")
    asked = parser.parse_args(words)
    plan = yaml.safe_load(SUITE.read_text(encoding="utf-8"))["patterns"]
    console, started = Console(stderr=True, highlight=False), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="infrascope-patterns-") as scratch:
        roots = {"repository": REPOSITORY, "simulated": Path(scratch, "runs")}
        if asked.real is not None:
            roots["real"] = asked.real
        if not asked.only or "simulated" in asked.only:
            _simulate(plan, plan["seeds"][asked.seeds], roots["simulated"])
        sets = _sets(plan, roots, asked.only, asked.sets)
        workers = min(len(sets), os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(measure, sets, [Path(scratch, "data", one.name) for one in sets]))
    template = Path(__file__).with_name("patterns.md.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    page = environment.from_string(template).render(
        found=found, real=asked.real is not None, development=asked.seeds == "development", seeds=plan["seeds"]
    )
    target = asked.docs / "patterns.md"
    target.write_text(page, encoding="utf-8")
    console.print(f"{target} after {time.monotonic() - started:.0f} s")
    return 0


def measure(pattern_set: PatternSet, data: Path) -> dict[str, Any]:
    """Every control of one set of runs, as counts."""
    folder = _filled(pattern_set.path, data)
    mined, sets = Mined.of(folder, pattern_set.platform), pattern_set.sets
    rules = mined.rules()
    runs = accepted(folder).filter(platform=pattern_set.platform)
    old = controls.pooled_fisher(mined)
    return {
        "name": pattern_set.name,
        "about": pattern_set.about,
        "runs": len(mined.runs),
        "workloads": runs.select("phase", "workload").n_unique(),
        "windows": sum(len(one.holds) for one in mined.runs),
        "groups": len(set(mined.items.groups)),
        "tested": int(rules["tested"][0]) if rules.height else 0,
        "rules": rules.height,
        "own": rules.filter(timing="own").height,
        "course": rules.filter(timing="course").height,
        "common": rules.filter(timing="common").height,
        "shown": worth_reading(rules, controls.SHOWN, ["own", "course"]).height,
        "orders": mined.orders().height,
        "old": old.height,
        "old_significant": int((old["q_value"] < 0.05).sum()),
        "shifted": controls.sets_with_rules(mined, sets, seed=1),
        "exchanged": controls.sets_with_own(mined, max(sets * 2 // 5, 4), seed=2),
        "foreign": controls.sets_with_foreign(mined, sets, seed=3),
        "halves": controls.confirmed(mined, 10, seed=4),
        "dealt": controls.sets_with_contrasts(mined, sets, seed=5),
        "planted": {share: controls.found_planted(mined, pattern_set.planted, share, seed=6) for share in (0.5, 0.9)},
        "lags": controls.found_lags(mined, sets, _LAG_S, seed=7),
        "levels": levels.compared(folder, pattern_set.platform, min(sets, 20)),
        "identity": {
            name: asdict(score) for name, score in identities.leave_one_out(folder, pattern_set.platform).items()
        },
    }


def _filled(source: Path, data: Path) -> DataFolder:
    """A folder of the runs, with what patterns are mined from."""
    wanted = {p.name for table in (BASKETS, GROUP_ALIASES, REJECTED_FILES) for p in GRAPH.upstream(table)}
    graph = Graph(tuple(product for product in GRAPH.order if product.name in wanted), runs=accepted)
    folder = DataFolder(data, Settings(), (source,))
    refresh(folder, graph=graph)
    return folder


def _sets(plan: dict[str, Any], roots: dict[str, Path], only: Sequence[str], most: int | None) -> list[PatternSet]:
    return [
        PatternSet(
            name=entry["name"],
            about=entry["about"],
            path=roots[entry["root"]] / entry["path"],
            platform=entry["platform"],
            sets=min(entry["sets"], most or entry["sets"]),
            planted=min(entry["planted"], most or entry["planted"]),
        )
        for entry in plan["data_sets"]
        if entry["root"] in roots and (not only or entry["name"] in only)
    ]


def _simulate(plan: dict[str, Any], first_seed: int, folder: Path) -> None:
    seed = count(first_seed)
    for workload in plan["workloads"]:
        for _ in range(plan["runs"]):
            write_job(Job("gpu", **workload, minutes=plan["minutes"], seed=next(seed)), folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
