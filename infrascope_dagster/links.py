"""Links from Dagster's UI: to a run's report and pictures, to a table's page, to code and to decisions.

What belongs here: addresses. What answers there is in `pages`; without it, links to files are shown as their paths.
"""

import os
from pathlib import Path
from urllib.parse import quote

import dagster as dg

from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Product

PROJECT = Path(__file__).parents[1]
ADDRESS = "INFRASCOPE_PAGES"
"""Environment variable with the address under which the pages are reached."""


def are_served() -> bool:
    """Whether files of the data folder can be linked."""
    return ADDRESS in os.environ


def to_data(folder: DataFolder, path: Path) -> dg.MetadataValue:
    """Link to a file of the data folder."""
    if (base := os.environ.get(ADDRESS)) is None:
        return dg.MetadataValue.path(str(path.absolute()))
    return dg.MetadataValue.url(f"{base}/{quote(path.relative_to(folder.root).as_posix())}")


def picture(folder: DataFolder, path: Path) -> dg.MetadataValue:
    """A picture of the data folder, shown where pages are served; an event holds its address only."""
    if not isinstance(link := to_data(folder, path), dg.UrlMetadataValue):
        return link
    return dg.MetadataValue.md(f"[![picture]({link.url})]({link.url})")


def of_table(product: Product, table: str) -> dict[str, dg.MetadataValue]:
    """Links of an asset: to the code that makes it, and, where pages are served, to its table's page and decisions."""
    code = product.make.__code__
    reference = dg.LocalFileCodeReference(
        file_path=code.co_filename, line_number=code.co_firstlineno, label=code.co_name
    )
    found: dict[str, dg.MetadataValue] = {
        "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference])
    }
    if (base := os.environ.get(ADDRESS)) is not None:
        source = Path(code.co_filename)
        if source.is_relative_to(PROJECT):
            place = f"{quote(source.relative_to(PROJECT).as_posix())}#line-{code.co_firstlineno}"
            found["code"] = dg.MetadataValue.url(f"{base}/{place}")
        found["table"] = dg.MetadataValue.url(f"{base}/docs/tables.md#{table}")
        for number in product.decisions:
            for page in (PROJECT / "docs" / "adr").glob(f"{number:04}-*.md"):
                found[f"decision {number}"] = dg.MetadataValue.url(f"{base}/docs/adr/{page.name}")
    return found
