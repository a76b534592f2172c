"""Versions as Dagster records them, so that what it shows as "unsynced" is so.

What is stale is the core's to say, by fingerprints of each run's own inputs. Dagster records one version per asset of a
batch, not one per partition, and compares; told of versions by content, it calls most of a current folder unsynced. So
the version of a product is that of its code. A run file, reported by itself, has its own fingerprint.
"""

import dagster as dg

from infrascope_core.store.folder import DataFolder
from infrascope_core.store.graph import Graph
from infrascope_core.store.product import Product, Scope

DATA_VERSION = "dagster/data_version"
CONTENT = "infrascope/content"
"""Tag with the hash of a pooled table's content."""

_UNKNOWN = "INITIAL"
"""What Dagster records for an input that was never materialized."""


def deps_of(graph: Graph, product: Product) -> list[str]:
    """Names of the assets that a product's are made after."""
    return ["source_files"] if product.scope is Scope.ARRIVING else sorted(graph.comes_after(product))


def version_of(graph: Graph, product: Product) -> dg.DataVersion:
    """The version of all partitions of a product; of one that is quoted, as if it had never been made.

    What quotes it stays as it is when the quoted is made for the first time, or by other code.
    """
    quoted = any(product.tables[0] in other.quotes for other in graph.products)
    return dg.DataVersion(_UNKNOWN if quoted else product.code_version)


def tags_of(graph: Graph, folder: DataFolder, product: Product) -> dict[str, str]:
    """Tags of a materialization that no step records: the same as a step would have recorded.

    They name no event of an input. Dagster then compares with the latest, which is what the product was made from.
    """
    tags = {DATA_VERSION: version_of(graph, product).value, "dagster/code_version": product.code_version}
    for name in deps_of(graph, product):
        tags[f"dagster/input_data_version/{name}"] = _version_now(graph, folder, name)
        tags[f"dagster/input_event_pointer/{name}"] = "NULL"
    return tags


def _version_now(graph: Graph, folder: DataFolder, name: str) -> str:
    if name not in graph.by_table:
        return _UNKNOWN
    product = graph.product(name)
    there = product.scope.per_run or folder.lake.version(name) is not None
    return version_of(graph, product).value if there else _UNKNOWN
