"""What a source holds beside what its tables say: in both, in one, and what differs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from infrascope_core.errors import RunFileError
from infrascope_core.pipeline import GRAPH, refresh
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.run_files.inventory import compared, inventory
from infrascope_core.run_files.meta import read_meta, read_metas
from infrascope_core.run_files.sources.entry import Listing, Meta
from infrascope_core.run_files.sources.folder import LocalFile
from infrascope_core.run_files.tables import RUN_FILES, RUN_INVENTORY
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Product
from tests.runs import run_name, write_run

HEADER = "source_file,n_rows,n_cols,phase,mode,model,task,dataset,model_task,workload\n"
LLAMA = "data_LLAMAforTask_default_2025-04-26T13-38-18_h1"
BERT = "train_BERTforTask_default_2025-04-26T13-38-18_h1"
OTHER = BERT.replace("h1", "h2")
GONE = "infer_VGG16forTask_default_2025-04-26T13-38-18_h1"
META = (
    HEADER + f"./train_separated/{LLAMA}.txt,18400,678,fine-tuning,llm,LLAMA,Task,default,x,LLAMA__Task__default\n"
    f"./train_separated/{BERT}.txt,400,5,infer,nonllm,BERT,Task,default,x,BERT__Task__other\n"
    f"./infer_separated/{GONE}.txt,82,791,infer,nonllm,VGG16,Task,default,x,VGG16__Task__default\n"
)


def meta(text: str) -> Meta:
    return Meta(Path("meta_gpu.csv"), text.encode())


def test_a_table_is_read_by_run_key():
    table = read_meta(meta(META + f"again\\{GONE}.txt,1,1,,,,,,,\n"))
    assert table.rows()[0] == (
        LLAMA, f"./train_separated/{LLAMA}.txt", "fine-tuning", "llm", "LLAMA__Task__default", 18400, 678,
    )  # fmt: skip
    assert table["run_key"].to_list() == [LLAMA, BERT, GONE]


def test_a_table_may_lack_columns_and_numbers():
    table = read_meta(meta(f"n_rows,source_file\nmany,{BERT}.txt\n,\n"))
    assert table.row(0, named=True) | {"run_key": BERT, "rows": None, "phase": None, "columns": None} == table.row(
        0, named=True
    )
    assert table.height == 1


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "cannot be read as a table"),
        (b"a,b\n1,2\n", "expected a column source_file, found a,b"),
        (b"\xff\xfe\x00", "."),
    ],
)
def test_what_is_no_table_is_said_and_stops_nothing(content, fault):
    bad = Meta(Path("meta_cpu.csv"), content)
    with pytest.raises(RunFileError, match=fault):
        read_meta(bad)
    table, faults = read_metas([bad, meta(META)])
    assert table.height == 3
    assert len(faults) == 1 and faults[0].startswith("meta_cpu.csv: ")


def test_the_inventory_says_what_is_in_both_or_in_one_and_what_differs():
    entries = tuple(LocalFile(Path(f"train_seperated/{name}.txt")) for name in (LLAMA, BERT, OTHER))
    listing = Listing("here", entries, entries, (meta(META),))
    read = pl.DataFrame(
        [{"run_key": BERT, "samples": 400, "metrics": 7}, {"run_key": LLAMA, "samples": 18399, "metrics": 678}]
    )
    table = compared(inventory(listing, read_metas(listing.metas)[0]), read)
    found = table.select("file", "listed", "described", "phase", "mode", "workload", "samples", "differs").rows()
    assert found == [
        (f"./infer_separated/{GONE}.txt", False, True, "infer", "nonllm", "VGG16__Task__default", None, []),
        (f"train_seperated/{LLAMA}.txt", True, True, "fine-tuning", "llm", "LLAMA__Task__default", 18399, ["rows"]),
        (f"train_seperated/{BERT}.txt", True, True, "infer", "nonllm", "BERT__Task__other", 400,
         ["phase", "workload", "columns"]),
        (f"train_seperated/{OTHER}.txt", True, False, "train", "nonllm", "BERT__Task__default", None, []),
    ]  # fmt: skip
    assert table.schema == RUN_INVENTORY.schema


def test_without_a_table_nothing_is_described_or_not():
    entries = (LocalFile(Path(f"{BERT}.txt")), LocalFile(Path("notes.txt")))
    table = inventory(Listing("here", entries, entries), read_metas(())[0])
    assert table.select("run_key", "described", "phase").rows() == [("notes", None, None), (BERT, None, "train")]


def test_sources_that_are_not_looked_at_keep_their_rows_and_follow_what_is_read(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    first, second = write_run(here, 1), write_run(there, 2)
    (here / "meta_cpu.csv").write_text(HEADER + f"{first.name},401,5,train,nonllm,,,,,\n")
    data = tmp_path / "data"

    def made(*sources: Path) -> dict[str, tuple[int | None, list[str]]]:
        folder = DataFolder(data, sources=sources)
        for key in Inbox.of(folder).keys:
            GRAPH.make(folder, RUN_FILES, key)
        folder = folder.fresh()
        table = GRAPH.make_pooled(folder, RUN_INVENTORY)
        assert GRAPH.is_current(folder.fresh(), RUN_INVENTORY)
        return {row["file"]: (row["samples"], row["differs"]) for row in table.iter_rows(named=True)}

    assert made(here) == {str(first): (400, ["rows"])}
    assert made(there) == {str(first): (400, ["rows"]), str(second): (400, [])}
    write_run(here, 1, samples=401)
    assert made(here) == {str(first): (401, []), str(second): (400, [])}
    second.unlink()
    there.rmdir()
    assert made() == {str(first): (401, [])}


def test_two_who_name_different_sources_make_it_once_each_and_then_no_more(tmp_path, monkeypatch):
    """As the command line and a Dagster do that fill one data folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    write_run(here, 1)
    write_run(there, 2)

    def made(*sources: Path) -> bool:
        names = []
        folder = DataFolder(tmp_path / "data", sources=sources)
        refresh(folder, only=of_run_files, on_made=lambda product, key, frames: names.append(product.name))
        return "run_inventory" in names

    assert [made(here), made(there), made(here), made(there), made(here, there), made()] == [True, True, *[False] * 4]
    monkeypatch.chdir(tmp_path)
    assert not made(Path("here"))
    write_run(here, 3)
    assert [made(there), made(here), made(there)] == [False, True, False]
    (there / "notes.txt").write_text("no run")
    assert [made(here), made(there)] == [False, True]


def of_run_files(product: Product) -> bool:
    return product.stage == "run_files"


def test_metadata_is_no_run_file_and_a_bad_one_is_named(tmp_path):
    runs = tmp_path / "runs"
    for second in (1, 2):
        write_run(runs, second)
    (runs / "meta_gpu.csv").write_text("nothing of that kind\n1\n")
    folder = DataFolder(tmp_path / "data", sources=(runs,))
    refresh(folder)
    inbox = Inbox.of(folder.fresh())
    assert inbox.outcome() == (2, 0)
    assert inbox.notices == [
        f"{runs / 'meta_gpu.csv'}: expected a column source_file, found nothing of that kind",
    ]
    rows = folder.lake.read(RUN_INVENTORY)
    assert rows["run_key"].to_list() == [run_name(second)[:-4] for second in (1, 2)]
    assert rows["described"].to_list() == [False, False]
    assert folder.lake.read(RUN_FILES, run_name(1)[:-4])["started_at"].to_list() == [datetime(2026, 11, 1, 10, 0, 1)]
