"""The graph of declarations: order, the one rule of currency in every scope, and making."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from graphlib import CycleError
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.contract import INT, PLATFORM, RUN_KEY, Column, Table
from infrascope_core.errors import NotFittedError
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph, State
from infrascope_core.store.lake import Lake
from infrascope_core.store.product import Part, Product, Scope

X = Column("x", INT, "")
RUNS = Table("runs", "", ("run_key",), (RUN_KEY, PLATFORM, X))
NOTES = Table("notes", "", ("run_key",), (RUN_KEY,))
DOUBLES = Table("doubles", "", ("run_key",), (RUN_KEY, X))
EXTRAS = Table("extras", "", ("run_key",), (RUN_KEY, X))
LEVELS = Table("levels", "", ("platform",), (PLATFORM, X))
JUDGED = Table("judged", "", ("run_key",), (RUN_KEY, X))
PATTERNS = Table("patterns", "", ("x",), (X,))
SIMILAR = Table("similar", "", ("platform", "run_key"), (PLATFORM, RUN_KEY, X))
QUOTED = Table("quoted", "", ("run_key",), (RUN_KEY, X))


# -- a small graph: run `a` of platform `p` is "a": ["p", 1] in the file `arrived.json` of the data folder


def arrived(folder: DataFolder) -> dict[str, list]:
    return json.loads((folder.root / "arrived.json").read_text())


def accepted(folder: DataFolder) -> pl.DataFrame:
    return folder.lake.read_all(RUNS).filter(pl.col("x") >= 0).sort("run_key")


def frame(table: Table, *rows: tuple) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=table.schema, orient="row")


def make_runs(folder: DataFolder, key: str) -> pl.DataFrame:
    folder.lake.write(frame(NOTES, (key,)), NOTES, key)
    return frame(RUNS, (key, *arrived(folder)[key]))


def make_doubles(folder: DataFolder, key: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    (x,) = folder.lake.read(RUNS, key)["x"]
    file_of(folder, key).write_text("made")
    return frame(DOUBLES, (key, 2 * x)), frame(EXTRAS, (key, x))


def file_of(folder: DataFolder, key: str) -> Path:
    return folder.root / f"{key}.md"


def fit_levels(folder: DataFolder, held: pl.DataFrame, tick: Callable) -> pl.DataFrame:
    """The sum of each platform's doubles, for platforms that have none yet."""
    rows = accepted(folder).join(held, on="platform", how="anti")
    parts = [held]
    for (platform,), own in rows.partition_by("platform", as_dict=True).items():
        parts.append(frame(LEVELS, (platform, folder.lake.read_all(DOUBLES, own["run_key"])["x"].sum())))
    return pl.concat(parts).sort("platform")


def level_of(folder: DataFolder, key: str) -> str:
    (platform,) = folder.lake.read(RUNS, key)["platform"]
    return str(folder.lake.read(LEVELS).filter(platform=platform).rows())


def make_judged(folder: DataFolder, key: str) -> pl.DataFrame:
    (platform,), (x,) = folder.lake.read(RUNS, key)["platform"], folder.lake.read(DOUBLES, key)["x"]
    return frame(JUDGED, (key, x - folder.lake.read(LEVELS).filter(platform=platform)["x"][0]))


def mine(folder: DataFolder, held: pl.DataFrame, tick: Callable) -> pl.DataFrame:
    assert held.is_empty()
    return folder.lake.read_all(DOUBLES).select(pl.col("x").sum())


def runs_by_platform(folder: DataFolder) -> dict[str, list[str]]:
    parts = accepted(folder).partition_by("platform", as_dict=True)
    return {platform: own["run_key"].to_list() for (platform,), own in parts.items()}


def compare(folder: DataFolder, held: pl.DataFrame, tick: Callable) -> pl.DataFrame:
    parts = [held]
    for platform, keys in runs_by_platform(folder).items():
        if platform not in held["platform"]:
            doubles = folder.lake.read_all(DOUBLES, keys)
            parts.append(doubles.select(pl.lit(platform).alias("platform"), "run_key", "x"))
    return pl.concat(parts).sort("platform", "run_key")


def quote(folder: DataFolder, key: str) -> pl.DataFrame:
    return frame(QUOTED, (key, folder.lake.read(PATTERNS)["x"].sum()))


PRODUCTS = {
    "quoted": Product("s", (QUOTED,), Scope.PER_RUN, quote, inputs=(DOUBLES,), quotes=(PATTERNS,)),
    "patterns": Product("s", (PATTERNS,), Scope.MINED, mine, inputs=(DOUBLES,)),
    "runs": Product(
        "s", (RUNS, NOTES), Scope.ARRIVING, make_runs, depends_on=lambda folder, key: str(arrived(folder).get(key))
    ),
    "similar": Product("s", (SIMILAR,), Scope.COMPARED, compare, inputs=(DOUBLES,), units=runs_by_platform),
    "judged": Product("s", (JUDGED,), Scope.PER_RUN, make_judged, inputs=(DOUBLES, Part(LEVELS, level_of))),
    "levels": Product("s", (LEVELS,), Scope.FITTED, fit_levels, inputs=(DOUBLES,), settings=("windows",)),
    "doubles": Product(
        "s", (DOUBLES, EXTRAS), Scope.PER_RUN, make_doubles, inputs=(RUNS,), files=lambda f, key: [file_of(f, key)]
    ),
}
GRAPH = Graph(tuple(PRODUCTS.values()), accepted)


def changed(name: str, **changes) -> Graph:
    """The graph with one declaration changed."""
    return Graph(tuple(replace(p, **changes) if n == name else p for n, p in PRODUCTS.items()), accepted)


class Filled:
    """A data folder with some runs, and a refresh that says what it made."""

    def __init__(self, root: Path) -> None:
        self.folder = DataFolder(root)
        self.settings = Settings()

    def arrive(self, **runs: list) -> None:
        known = arrived(self.folder) if (self.folder.root / "arrived.json").exists() else {}
        (self.folder.root / "arrived.json").write_text(json.dumps(known | runs))

    def refresh(self, graph: Graph = GRAPH) -> set[str]:
        folder = DataFolder(self.folder.root, self.settings)
        made = set()
        for product in graph.order:
            if not product.scope.per_run:
                if not graph.is_current(folder, product.name):
                    graph.make_pooled(folder, product.name)
                    made.add(product.name)
                assert graph.is_current(folder, product.name)
                continue
            keys = arrived(folder) if product.scope is Scope.ARRIVING else accepted(folder)["run_key"]
            for key in keys:
                if not graph.is_current(folder, product.name, key):
                    graph.make(folder, product.name, key)
                    made.add(f"{product.name} {key}")
                assert graph.is_current(folder, product.name, key)
        return made

    def rows(self, table: Table) -> list[tuple]:
        return self.folder.lake.read(table).rows()


@pytest.fixture
def filled(tmp_path) -> Filled:
    filled = Filled(tmp_path)
    filled.arrive(a=["p", 1], b=["p", 2], c=["q", 4])
    filled.refresh()
    return filled


PER_RUN = ("runs", "doubles", "judged", "quoted")


def everything(*keys: str) -> set[str]:
    return {f"{name} {key}" for name in PER_RUN for key in keys}


# -- order


def test_products_come_after_what_they_read_and_quote():
    order = [product.name for product in GRAPH.order]
    assert order == ["runs", "doubles", "patterns", "similar", "levels", "quoted", "judged"]
    assert [*GRAPH.tables] == ["runs", "notes", "doubles", "extras", *order[2:]]


def test_otherwise_they_come_as_they_were_declared():
    backwards = Graph(tuple(reversed(PRODUCTS.values())), accepted)
    assert [product.name for product in backwards.order] == [
        "runs", "doubles", "levels", "similar", "patterns", "judged", "quoted"
    ]  # fmt: skip


def test_upstream_is_what_a_table_is_made_from():
    assert [product.name for product in GRAPH.upstream(JUDGED)] == ["runs", "doubles", "levels", "judged"]
    assert [product.name for product in GRAPH.upstream("extras")] == ["runs", "doubles"]


def test_declarations_that_do_not_fit_together():
    with pytest.raises(ValueError, match="quoted reads patterns, which no product makes"):
        _ = Graph((PRODUCTS["quoted"], PRODUCTS["doubles"], PRODUCTS["runs"]), accepted).order
    with pytest.raises(ValueError, match="two products make the table levels"):
        _ = GRAPH.plus(PRODUCTS["levels"]).by_table
    with pytest.raises(CycleError):
        _ = changed("doubles", inputs=(RUNS, JUDGED)).order


# -- currency


def test_a_second_visit_makes_nothing(filled):
    assert filled.refresh() == set()


def test_what_is_made_of_runs(filled):
    lake = filled.folder.lake
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8)]
    assert lake.read_all(JUDGED).rows() == [("a", -4), ("b", -2), ("c", 0)]
    assert filled.rows(PATTERNS) == [(14,)]
    assert filled.rows(SIMILAR) == [("p", "a", 2), ("p", "b", 4), ("q", "c", 8)]
    assert lake.read_all(QUOTED)["x"].to_list() == [14, 14, 14]
    assert lake.read_all(EXTRAS)["x"].to_list() == [1, 2, 4]


def test_a_new_run_changes_no_other_and_no_model(filled):
    """What is fitted is visited and keeps what it holds; what is mined and compared is made anew."""
    filled.arrive(d=["p", 8])
    assert filled.refresh() == {*everything("d"), "levels", "patterns", "similar"}
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8)]
    assert filled.folder.lake.read(JUDGED, "d").rows() == [("d", 10)]
    assert filled.rows(PATTERNS) == [(30,)]
    # what was quoted stays as it was
    assert filled.folder.lake.read_all(QUOTED)["x"].to_list() == [14, 14, 14, 30]


def test_a_platform_that_is_new_is_fitted(filled):
    filled.arrive(d=["r", 8])
    assert filled.refresh() == {*everything("d"), "levels", "patterns", "similar"}
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8), ("r", 16)]


def test_a_run_that_changed_is_made_again_and_models_stay(filled):
    filled.arrive(a=["p", 3])
    assert filled.refresh() == {*everything("a"), "levels", "patterns", "similar"}
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8)]
    assert filled.folder.lake.read(JUDGED, "a").rows() == [("a", 0)]


def test_a_run_that_is_rejected_now_leaves_the_pools(filled):
    filled.arrive(c=["q", -1])
    assert filled.refresh() == {"runs c", "levels", "patterns", "similar"}
    assert filled.rows(SIMILAR) == [("p", "a", 2), ("p", "b", 4)]
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8)]  # a model outlives its runs


def test_a_refit_forgets_what_was_held(filled):
    filled.arrive(d=["p", 8])
    filled.refresh()
    GRAPH.make_pooled(filled.folder, LEVELS, refit=True)
    assert filled.rows(LEVELS) == [("p", 22), ("q", 8)]
    # only what rests on the part that changed is stale
    assert filled.refresh() == {"judged a", "judged b", "judged d"}


def test_a_fitted_product_is_fitted_anew_when_what_it_rests_on_changes(filled):
    filled.arrive(d=["p", 8])
    filled.refresh()
    filled.settings = Settings(windows={"samples": 20})
    assert filled.refresh() == {"levels", "judged a", "judged b", "judged d"}
    assert filled.rows(LEVELS) == [("p", 22), ("q", 8)]
    assert filled.refresh() == set()


def test_a_fitted_product_rests_on_a_part_for_one_platform_only(filled):
    """Of the platforms it holds, those are fitted anew whose own part changed."""
    text = {"p": "1", "q": "1"}
    graph = changed("levels", depends_on=lambda folder, platform: text[platform])
    assert filled.refresh(graph) == {"levels"}
    filled.arrive(d=["p", 8], e=["q", 8])
    filled.refresh(graph)
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8)]
    text["q"] = "2"
    assert filled.refresh(graph) == {"levels", "judged c", "judged e"}
    assert filled.rows(LEVELS) == [("p", 6), ("q", 24)]


@pytest.mark.parametrize(
    ("name", "stale"),
    [
        ("runs", {f"runs {key}" for key in "abc"} | {f"doubles {key}" for key in "abc"}),
        ("doubles", {f"doubles {key}" for key in "abc"}),
        ("judged", {f"judged {key}" for key in "abc"}),
        ("quoted", {f"quoted {key}" for key in "abc"}),
        ("levels", {"levels"}),
        ("patterns", {"patterns"}),
        ("similar", {"similar"}),
    ],
)
def test_a_new_code_version_makes_a_product_stale(filled, name, stale):
    graph = changed(name, code_version="2")
    made = filled.refresh(graph)
    assert stale <= made
    assert filled.refresh(graph) == set()
    if name in ("judged", "quoted", "patterns", "similar", "levels"):
        assert made == stale  # the rows came out the same, so nothing that reads them is stale


def test_a_pooled_product_with_other_columns_is_made_anew(filled):
    wider = Table("patterns", "", ("x",), (X, Column("y", INT, "")))
    graph = changed("patterns", tables=(wider,), make=lambda *of: mine(*of).with_columns(y=pl.lit(1, pl.Int64)))
    assert filled.refresh(graph) == {"patterns"}
    assert filled.folder.lake.read(wider).rows() == [(14, 1)]
    assert filled.refresh(graph) == set()


@pytest.mark.parametrize(
    ("key", "table"), [("a", DOUBLES), ("a", EXTRAS), ("b", JUDGED), (None, LEVELS), (None, SIMILAR)]
)
def test_what_somebody_deleted_is_made_again(filled, key, table):
    before = {path: path.read_bytes() for path in filled.folder.root.rglob("*.parquet")}
    filled.folder.lake.drop(table, key)
    assert not GRAPH.is_current(filled.folder, table, key or "")
    product = GRAPH.product(table).name
    assert filled.refresh() == {f"{product} {key}" if key else product}
    assert {path: path.read_bytes() for path in filled.folder.root.rglob("*.parquet")} == before


def test_a_product_whose_file_beside_the_lake_was_deleted_is_made_again(filled):
    file_of(filled.folder, "b").unlink()
    assert filled.refresh() == {"doubles b"}


def test_of_what_is_compared_unit_by_unit_only_those_units_are_made_that_changed(filled, monkeypatch):
    filled.arrive(d=["q", 8])
    for product in GRAPH.order[:2]:
        GRAPH.make(filled.folder, product.name, "d")
    seen = []

    def spy(folder, held, tick):
        seen.append(held.rows())
        return compare(folder, held, tick)

    graph = changed("similar", make=spy)
    frame = graph.make_pooled(filled.folder, SIMILAR)
    assert seen == [[("p", "a", 2), ("p", "b", 4)]]
    assert frame.rows() == [("p", "a", 2), ("p", "b", 4), ("q", "c", 8), ("q", "d", 16)]


def test_what_is_compared_unit_by_unit_is_stale_only_by_runs_of_its_units(filled):
    def only_p(folder: DataFolder) -> dict[str, list[str]]:
        return {platform: keys for platform, keys in runs_by_platform(folder).items() if platform == "p"}

    graph = changed("similar", units=only_p, make=lambda *of: compare(*of).filter(platform="p"))
    filled.refresh(graph)
    filled.arrive(d=["q", 8])
    assert "similar" not in filled.refresh(graph)
    filled.arrive(a=["p", 3])
    assert "similar" in filled.refresh(graph)
    filled.arrive(e=["p", 8])
    assert "similar" in filled.refresh(graph)
    assert filled.rows(SIMILAR) == [("p", "a", 6), ("p", "b", 4), ("p", "e", 16)]


def test_a_state_that_cannot_be_read_makes_all_anew(filled):
    """As one that an earlier version kept."""
    for text in ("", "abc", "[]", "{}", '{"whole": "x"}', '{"whole": "x", "units": 3}'):
        assert State.of(text) == State("", {})
        filled.folder.lake.write(filled.folder.lake.read(LEVELS), LEVELS, made_from=text)
        assert filled.refresh() == {"levels"}
    state = State("w", {"p": "1"})
    assert State.of(state.as_text()) == state


# -- making


def test_a_product_of_a_run_before_its_model_is_an_error(tmp_path):
    filled = Filled(tmp_path)
    filled.arrive(a=["p", 1])
    for name in ("runs", "doubles"):
        GRAPH.make(filled.folder, name, "a")
    with pytest.raises(NotFittedError, match="levels is not fitted yet; it comes before judged of a"):
        GRAPH.make(filled.folder, JUDGED, "a")
    assert not filled.folder.lake.has(JUDGED, "a")


def test_the_first_table_is_written_last(filled, monkeypatch):
    """It carries the fingerprint by which all are current."""
    written = []
    write = Lake.write

    def spy(self, rows, table, *more):
        written.append(table.name)
        return write(self, rows, table, *more)

    monkeypatch.setattr(Lake, "write", spy)
    GRAPH.make(filled.folder, DOUBLES, "a")
    assert written == ["extras", "doubles"]


def test_a_run_that_changes_while_a_pool_is_made_is_seen_by_the_next_visit(filled):
    def slow(folder, held, tick):
        made = mine(folder, held, tick)
        filled.arrive(a=["p", 100])
        GRAPH.make(folder, RUNS, "a")
        GRAPH.make(folder, DOUBLES, "a")
        return made

    changed("patterns", make=slow).make_pooled(filled.folder, PATTERNS)
    assert filled.rows(PATTERNS) == [(14,)]
    assert "patterns" in filled.refresh()
    assert filled.rows(PATTERNS) == [(212,)]


# -- two writers


def _only(platform: str) -> Callable[[DataFolder], pl.DataFrame]:
    return lambda folder: accepted(folder).filter(platform=platform)


def _fit_slowly(root: Path, platform: str, barrier) -> None:
    def make(folder: DataFolder, held: pl.DataFrame, tick: Callable) -> pl.DataFrame:
        time.sleep(0.5)
        keys = accepted(folder).filter(platform=platform)["run_key"]
        return pl.concat([held, frame(LEVELS, (platform, folder.lake.read_all(DOUBLES, keys)["x"].sum()))]).sort("x")

    products = tuple(replace(p, make=make) if n == "levels" else p for n, p in PRODUCTS.items())
    barrier.wait()
    Graph(products, _only(platform)).make_pooled(DataFolder(root), LEVELS)


def test_two_processes_that_fit_different_platforms_lose_no_row(filled):
    filled.folder.lake.drop(LEVELS)
    barrier = multiprocessing.get_context("spawn").Barrier(2)
    processes = [
        multiprocessing.get_context("spawn").Process(target=_fit_slowly, args=(filled.folder.root, platform, barrier))
        for platform in "pq"
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert filled.rows(LEVELS) == [("p", 6), ("q", 8)]
    # and the result is kept as that of one who saw both
    assert State.of(filled.folder.lake.made_from(LEVELS) or "").units.keys() == {"p", "q"}
