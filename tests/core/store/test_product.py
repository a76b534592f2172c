"""A declaration that contradicts itself is refused where it stands."""

from __future__ import annotations

import polars as pl
import pytest

from infrascope_core.contract import INT, PLATFORM, RUN_KEY, Column, Table
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Part, Product, Scope

ONE = Table("one", "", ("run_key",), (RUN_KEY, Column("x", INT, "")))
TWO = Table("two", "", ("platform", "x"), (PLATFORM, Column("x", INT, "")))


def build(folder: DataFolder, unit: str) -> pl.DataFrame:
    raise AssertionError("a declaration builds nothing")


def test_a_product_goes_by_its_first_table_and_reads_whole_tables_and_parts():
    product = Product("s", (ONE, TWO), Scope.PER_RUN, build, inputs=(TWO, Part(ONE, lambda folder, unit: "")))
    assert product.name == "one"
    assert product.reads == (TWO, ONE)


def test_the_column_that_names_a_unit():
    assert Product("s", (TWO,), Scope.FITTED, build).unit_column == "platform"
    assert Product("s", (ONE,), Scope.COMPARED, build).unit_column == "run_key"


@pytest.mark.parametrize("scope", [Scope.FITTED, Scope.MINED, Scope.COMPARED, Scope.GATHERED, Scope.STUDIED])
def test_a_pooled_product_has_one_table(scope):
    with pytest.raises(ValueError, match="stage: a product has one table, or several per run"):
        Product("stage", (TWO, ONE), scope, build)


@pytest.mark.parametrize("scope", Scope)
def test_a_product_has_a_table(scope):
    with pytest.raises(ValueError, match="a product has one table"):
        Product("stage", (), scope, build)


def test_a_fitted_product_has_a_column_of_platforms():
    with pytest.raises(ValueError, match="one: a fitted product has a column `platform`"):
        Product("stage", (ONE,), Scope.FITTED, build)
