from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from infrascope_core.errors import RunFileError
from infrascope_core.run_files.name import is_run_file, parse_run_name, run_key


def test_reads_the_names_of_the_public_data_set():
    name = parse_run_name(Path("train_BARTBASEforTableQuestionAnswering_default_2025-04-26T13-38-18_htc-g004.txt"))
    assert (name.phase, name.model, name.task) == ("train", "BARTBASE", "TableQuestionAnswering")
    assert (name.dataset, name.host) == ("default", "htc-g004")
    assert name.started_at == datetime(2025, 4, 26, 13, 38, 18)
    assert name.workload == "BARTBASE__TableQuestionAnswering__default"
    assert name.mode == "nonllm"
    assert name.run_key == "train_BARTBASEforTableQuestionAnswering_default_2025-04-26T13-38-18_htc-g004"


@pytest.mark.parametrize(
    ("folder", "phase"),
    [
        ("train_separated", "fine-tuning"),
        ("train_seperated", "fine-tuning"),
        ("infer_separated", "infer"),
        ("infer_separated/more", "infer"),
        ("train_separated/infer_x", "infer"),
    ],
)
def test_llm_runs_take_their_phase_from_the_nearest_folder(folder, phase):
    path = Path(folder, "data_DEEPSEEKforTextClassification_default_2025-05-11T12-27-13_htc-g003.txt.gz")
    name = parse_run_name(path)
    assert (name.phase, name.mode) == (phase, "llm")


def test_a_model_may_hold_the_word_for_and_a_dataset_underscores():
    name = parse_run_name(Path("infer_PerformerforTextClassification_GLUE_SST-2_2025-05-11T12-27-13_n1.csv"))
    assert (name.model, name.task, name.dataset) == ("Performer", "TextClassification", "GLUE_SST-2")


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "train_BERT_default_2025-05-11T12-27-13_n1.txt",
        "train_BERTforText_default_2025-13-41T12-27-13_n1.txt",
        "train_BERTforText_default_2025-05-11T12-27-13_.txt",
        "train_BERTforText_default_2025-05-11T12-27-13_../../n1.txt",
        "train_BERTforText_de\nfault_2025-05-11T12-27-13_n1.txt",
        "train_BERTforText_def'ault_2025-05-11T12-27-13_n1.txt",
        "train_BERTforText_" + "x" * 300 + "_2025-05-11T12-27-13_n1.txt",
        "data_LLAMAforTextClassification_default_2025-05-11T12-27-13_n1.txt",
    ],
)
def test_rejects_other_names_in_one_sentence(name):
    with pytest.raises(RunFileError, match="expected"):
        parse_run_name(Path("somewhere") / name)


@pytest.mark.parametrize("ending", [".txt", ".TXT", ".Csv", ".tsv.gz", ".TXT.GZ", ".txt.Gz"])
def test_endings_of_either_case_belong_to_run_files_and_not_to_keys(ending):
    path = Path("train_BERTforText_default_2025-05-11T12-27-13_Node01" + ending)
    assert is_run_file(path)
    assert run_key(path) == "train_BERTforText_default_2025-05-11T12-27-13_Node01"
    assert parse_run_name(path).host == "Node01"


@pytest.mark.parametrize(
    "ending", [".txt.txt", ".csv.txt", ".TXT.csv", ".txt.gz.gz", ".gz.GZ.txt", ".txt.txt.gz", ".txt.gz.txt"]
)
def test_two_endings_are_rejected_in_one_sentence(ending):
    path = Path("train_BERTforText_default_2025-05-11T12-27-13_node01" + ending)
    assert is_run_file(path)
    with pytest.raises(
        RunFileError, match=r"two endings; expected one of \.txt, \.tsv and \.csv, and at most one \.gz"
    ):
        parse_run_name(path)


@pytest.mark.parametrize("ending", [".FAULTS.CSV", ".faults.CSV", ".faults.csv.gz"])
def test_labels_under_another_name_are_rejected_and_not_passed_over(ending):
    path = Path("train_BERTforText_default_2025-05-11T12-27-13_node01" + ending)
    assert is_run_file(path)
    with pytest.raises(RunFileError, match=r"labels lie beside their run file as STEM\.faults\.csv"):
        parse_run_name(path)


def test_endings():
    assert run_key(Path("a/b.txt.gz")) == run_key(Path("b.csv")) == run_key(Path("b.tsv")) == "b"
    assert is_run_file(Path("x/b.tsv.gz"))
    for other in ("b.faults.csv", "._b.txt", ".DS_Store", "b.parquet", "__MACOSX/b.txt"):
        assert not is_run_file(Path(other))
