"""The comparisons that the settings declare, each made anew when one of its runs changes."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from infrascope_core.comparing import throughput
from infrascope_core.comparing.figures import READ
from infrascope_core.comparing.sides import Sides, compared_as_declared, keys_declared
from infrascope_core.comparing.tables import RUN_COMPARISONS
from infrascope_core.quality import kinds
from infrascope_core.recipes import recipe_of
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import fingerprint
from infrascope_core.store.product import Product, Scope, Tick


def _run_comparisons(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    declared = folder.settings.comparisons.declared
    current, parts = set(known["comparison"]), [known]
    for done, one in enumerate(declared, start=1):
        if one.name not in current:
            parts.append(rows(one.name, compared_as_declared(folder, one)))
        tick(done, len(declared))
    return pl.concat(parts).sort("comparison", maintain_order=True)


def rows(name: str, sides: Sides) -> pl.DataFrame:
    """The rows of a comparison in `run_comparisons`, in the order of its figures."""
    found = [
        asdict(change) | asdict(change.figure) | {"figure": change.figure.name, "significant": change.significant}
        for change in sides.comparison.changes
    ]
    return RUN_COMPARISONS.conform(pl.DataFrame([{**row, "comparison": name} for row in found], RUN_COMPARISONS.schema))


def runs_of_declared(folder: DataFolder) -> dict[str, list[str]]:
    """Run keys by declared comparison: the units of what is made of comparisons."""
    return {
        one.name: sorted({key for side in keys_declared(folder, one) for key in side})
        for one in folder.settings.comparisons.declared
    }


def rests_on(folder: DataFolder, unit: str) -> str:
    """What comparisons depend on beside their inputs: words and units of metric groups, which metrics mean what, and
    which runs are one job."""
    within_s = str(folder.settings.hosts.start_within_s)
    return fingerprint(recipe_of(folder).model_dump_json(), throughput.CODE_VERSION, kinds.CODE_VERSION, within_s)


PRODUCTS = (
    Product(
        "comparing",
        (RUN_COMPARISONS,),
        Scope.COMPARED,
        _run_comparisons,
        inputs=READ,
        settings=("comparisons",),
        depends_on=rests_on,
        units=runs_of_declared,
        libraries=("numpy", "scipy"),
        decisions=(35, 36),
    ),
)
