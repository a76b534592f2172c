"""Mutated texts of every source: each ends in samples that can be joined and written, or in one clear sentence."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.dcgmi import samples_of_dcgmi
from infrascope_core.importers.importing import Plan, import_samples
from infrascope_core.importers.jobs import jobs_of_sacct
from infrascope_core.importers.ldms import samples_of_ldms
from infrascope_core.importers.mapping import Mapping, TableShape, load_mapping
from infrascope_core.importers.matrix import NotAnAnswerError, samples_of_matrix
from infrascope_core.importers.nvidia_smi import samples_of_nvidia_smi
from infrascope_core.importers.openmetrics import samples_of_text
from infrascope_core.importers.sadf import samples_of_sadf
from infrascope_core.importers.samples import Samples
from infrascope_core.importers.table import samples_of_table
from infrascope_core.run_files.reader import read_run_file
from tests.core.importers.test_jobs import SACCT
from tests.core.importers.test_logs import DMON, LONG, MEMINFO, RULES, SMI
from tests.core.importers.test_openmetrics import OPEN

FILE = Path("mutated")
BEGIN = datetime(2026, 1, 1)
READING = {"timestamp": {"date": "2026-07-01", "time": "12:00:00", "utc": 1}, "cpu-load": [{"cpu": "all", "user": 1.5}]}
SADF = json.dumps({"sysstat": {"hosts": [{"nodename": "h", "statistics": [READING, READING]}]}})
METRIC = {"__name__": "node_load1", "instance": "h:9100"}
RESULT = [{"metric": METRIC, "values": [[1795168800.5, "1"], [1795168815.5, "2"]]}]
MATRIX = json.dumps({"data": {"resultType": "matrix", "result": RESULT}}, separators=(",", ":"))
WIDE_SHAPE = TableShape(layout="wide", time="t", time_format="s", labels=("outlet",))
LONG_SHAPE = TableShape(
    layout="long", time="when", time_format="%d.%m.%Y %H:%M", host="node", name="what", value="reading",
    labels=("outlet",), separator=";",
)  # fmt: skip
WIDE = "t,outlet,power\n1795168800,n1,5\n1795168801.5,n1,6\n"
SOURCES: dict[str, tuple[str, Callable[[bytes], Samples], str]] = {
    "nvidia_smi": (SMI, lambda text: samples_of_nvidia_smi(FILE, text), "nvidia_smi"),
    "dcgmi": (DMON, lambda text: samples_of_dcgmi(FILE, text, UTC, BEGIN, 1.0), "dcgmi_dmon"),
    "ldms": (MEMINFO, lambda text: samples_of_ldms(FILE, text), "ldms"),
    "sadf": (SADF, lambda text: samples_of_sadf(FILE, text), "sadf"),
    "openmetrics": (OPEN, lambda text: samples_of_text(FILE, text), "node_exporter"),
    "matrix": (MATRIX, samples_of_matrix, "node_exporter"),
    "long": (LONG, lambda text: samples_of_table(FILE, text, LONG_SHAPE), "rules"),
    "wide": (WIDE, lambda text: samples_of_table(FILE, text, WIDE_SHAPE), "rules"),
}
PIECES = [
    b"", b"\0", b"\n", b"\r\n", b",", b'"', b"\\", b"{", b"}", b"[", b"]", b"\xff", b"1e999", b"-1", b"NaN", b"inf",
    b"9" * 30, b"\xe2\x80\xae", b"/", b"..", b"\t", b"#", b" ", b"0x", b"2026-02-30",
]  # fmt: skip


def mutated(text: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(text) + 1), rng.choice([0, 1, 1, 5, 50])
        kind = rng.randrange(3)
        piece = rng.choice(PIECES) if kind else text[rng.randrange(len(text) + 1) :][: rng.randint(1, 40)]
        text = text[:at] + piece + text[at + length :]
        if rng.random() < 0.1:
            text = text[: rng.randrange(len(text) + 1)]
        text = text or b"?"
    return text


@pytest.mark.parametrize("name", SOURCES)
def test_mutated_texts(name, tmp_path):
    text, parse, mapping = SOURCES[name]
    rules = Mapping.model_validate({"rules": RULES}) if mapping == "rules" else load_mapping(mapping)
    rng = random.Random(name)
    read = 0
    for number in range(150):
        plan = Plan(tmp_path / str(number), (rules,), host="h1")
        try:
            samples = parse(mutated(text.encode(), rng))
            outcomes = list(import_samples(samples, None, plan))
        except NotAnAnswerError:
            continue
        except ImportSourceError as error:
            assert "\n" not in str(error)
            continue
        for outcome in outcomes:
            assert outcome.path.parent == plan.out
            if outcome.status == "written":
                read += 1
                assert read_run_file(outcome.path).samples == outcome.samples
    assert read > 1
    assert {path.parent.parent for path in tmp_path.rglob("*.tsv")} == {tmp_path}


def test_mutated_output_of_sacct():
    rng = random.Random(7)
    for _ in range(300):
        try:
            jobs_of_sacct(mutated(SACCT.encode(), rng).decode("utf-8", "replace"))
        except ImportSourceError as error:
            assert "\n" not in str(error)


def test_random_bytes_are_no_parquet_file():
    rng = random.Random(1)
    for _ in range(50):
        raw = b"PAR1" + rng.randbytes(200)
        with pytest.raises(ImportSourceError, match="cannot be read as a table"):
            samples_of_table(FILE, raw, TableShape(layout="wide", time="t", time_format="s"))
