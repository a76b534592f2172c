"""What is made of arriving files: telemetry, facts and labels of each run, and the list of what was rejected."""

from __future__ import annotations

import polars as pl

from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.ingestion import CODE_VERSION
from infrascope_core.run_files.tables import (
    FAULTS,
    METRIC_TYPES,
    REJECTED_FILES,
    RUN_FILES,
    RUN_INVENTORY,
    TELEMETRY,
)
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import content_hash, fingerprint
from infrascope_core.store.product import Product, Scope, Tick

_STAGE = "run_files"


def _ingest(folder: DataFolder, key: str) -> pl.DataFrame:
    return Inbox.of(folder).ingest(key).run_file


def _review(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return Inbox.of(folder).review_rejections()


def _inventory(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    return Inbox.of(folder).inventory()


PRODUCTS = (
    Product(
        _STAGE,
        (RUN_FILES, TELEMETRY, FAULTS, METRIC_TYPES),
        Scope.ARRIVING,
        _ingest,
        code_version=CODE_VERSION,
        settings=("reader",),
        depends_on=lambda folder, key: Inbox.of(folder).fingerprint(key),
        is_refuted=lambda folder, key: Inbox.of(folder).is_refuted(key),
        copied=True,
        decisions=(1, 4, 26, 37),
    ),
    Product(
        _STAGE,
        (REJECTED_FILES,),
        Scope.GATHERED,
        _review,
        inputs=(RUN_FILES,),
        depends_on=lambda folder, _: fingerprint(*Inbox.of(folder).rejections()),
        decisions=(4,),
    ),
    Product(
        _STAGE,
        (RUN_INVENTORY,),
        Scope.GATHERED,
        _inventory,
        inputs=(RUN_FILES,),
        # of all sources that were ever listed: two who name different ones agree on it
        depends_on=lambda folder, _: content_hash(Inbox.of(folder).inventory()),
        decisions=(39,),
    ),
)
