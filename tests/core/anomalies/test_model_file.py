"""Model files: equal bytes for equal baselines, and one sentence about any that is not whole."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from infrascope_core.anomalies.detectors import DETECTORS
from infrascope_core.anomalies.model_file import Header, digest, encoded, load_baseline, save_baseline
from infrascope_core.errors import InfraScopeError, NotFittedError
from tests.core.anomalies.generated import features, scored


@pytest.fixture(scope="module")
def saved(baseline, tmp_path_factory) -> tuple[bytes, dict, dict[str, np.ndarray]]:
    """The bytes of a model file, its header, and its arrays."""
    path = tmp_path_factory.mktemp("saved") / "a.safetensors"
    save_baseline(baseline, path)
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["baseline"])
        return path.read_bytes(), header, {name: file.get_tensor(name) for name in file.keys()}


def test_it_gives_the_same_baseline_the_same_bytes_and_the_same_scores(baseline, tmp_path):
    save_baseline(baseline, tmp_path / "new" / "a.safetensors")
    again = load_baseline(tmp_path / "new" / "a.safetensors")
    save_baseline(again, tmp_path / "b.safetensors")
    assert (tmp_path / "new" / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert again.identity == baseline.identity
    assert (again.names, again.thresholds) == (baseline.names, baseline.thresholds)
    assert again.settings == baseline.settings
    assert [len(folds) for folds in again.held_out] == [3, 3, 3, 4, 4]
    new = features("new", seed=9)
    assert scored(again, new).equals(scored(baseline, new))
    assert sorted(p.name for p in tmp_path.rglob("*safetensors*")) == ["a.safetensors", "b.safetensors"]


def test_neither_time_nor_process_enters_the_bytes(tmp_path):
    """Hash seeds order sets and mappings anew in every process."""
    code = (
        "import sys; from pathlib import Path; from infrascope_core.anomalies.model_file import save_baseline; "
        "from tests.core.anomalies.generated import fitted, runs; save_baseline(fitted(runs(1)), Path(sys.argv[1]))"
    )
    written = []
    for seed in ("1", "2"):
        path = tmp_path / seed
        subprocess.run([sys.executable, "-c", code, path], check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_files_that_are_not_baselines_are_refused_in_one_sentence(baseline, saved, tmp_path):
    whole, header, arrays = saved
    names = header["names"]

    def forged(of: dict[str, object] | None = None, /, **changes: np.ndarray | None) -> bytes:
        """A file that is whole in itself, with another header or other arrays."""
        kept = {name: value for name, value in (arrays | changes).items() if value is not None}
        content = header | (of or {})
        with suppress(ValueError):  # else it is the schema that refuses it
            content["digest"] = digest(Header.model_validate(content), kept)
        return encoded(json.dumps(content, separators=(",", ":")), kept)

    def about(**changes: object) -> bytes:
        return forged(changes)

    def pickled(array: np.ndarray) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=True)
        return buffer.getvalue()

    split = int.from_bytes(whole[:8], "little") + 8
    brain = whole[8:split].replace(b'"dtype":"F16"', b'"dtype":"BF16"', 1)
    brain += b" " * (-len(brain) % 8)
    broken = {
        "empty": b"",
        "text": b"a,b\n1,2\n",
        "truncated": whole[: len(whole) // 2],
        "truncated in the header": whole[: split // 2],
        "flipped header": whole[:300] + bytes(64) + whole[364:],
        "flipped": whole[: split + 3000] + bytes([whole[split + 3000] ^ 1]) + whole[split + 3001 :],
        "another setting": whole.replace(b'"allowance\\":1.0', b'"allowance\\":2.0'),
        "endless header": b"\xff" * 8 + whole[8:],
        "pickle": b"\x80\x04K\x01.",
        "object array": pickled(np.array([{"x": 1}], dtype=object)),
        "plain array": pickled(np.zeros(3)),
        "older format": npz(arrays),
        "no entry": save(arrays),
        "a type that numpy lacks": len(brain).to_bytes(8, "little") + brain + whole[split:],
        "text as location": forged(**{"moments.location": np.zeros(len(names), dtype=np.complex64)}),
        "no location": forged(**{"moments.location": None}),
        "short scale": forged(**{"moments.scale": np.ones(2)}),
        "zero scale": forged(**{"moments.scale": np.zeros(len(names))}),
        "other format": about(format=2),
        "unknown detector": about(detectors=["oracle"]),
        "one detector": about(detectors=["zscore"]),
        "other order": about(detectors=list(DETECTORS)[::-1]),
        "no identity": about(identity={}),
        "unknown feature": about(names=[[metric, "mood"] for metric, _ in names]),
        "fewer names": about(names=names[:-1]),
        "text as threshold": about(thresholds=dict.fromkeys(DETECTORS, "x")),
        "one threshold": about(thresholds={"zscore": 1.0}),
        "other settings": about(settings={"trees": 0}),
        "other folds": about(folds=[1]),
        "more folds": about(folds=[4] * len(DETECTORS)),
        "levels that lie nowhere": forged(**{"levels.between": np.zeros(len(names))}),
        "odd header": encoded("[]", arrays),
        "deep header": encoded("[" * 100_000, arrays),
        "wide forest": forged(**{"isolation_forest.feature": np.full_like(arrays["isolation_forest.feature"], 999)}),
        "endless forest": forged(**{"isolation_forest.left": np.zeros_like(arrays["isolation_forest.left"])}),
        "other projection": forged(**{"mahalanobis.projection": np.zeros((4, 2))}),
        "other peaks": forged(**{"peaks.starts": np.array([0, 2, 999]), "peaks.range": np.ones(3)}),
        "no ranges": forged(**{"peaks.range": None}),
        "other references": forged(**{"references.z": np.zeros((5, 5), dtype=np.float16)}),
        "unknown run": forged(**{"references.run": arrays["references.run"] + 9}),
        "one calibration": forged(**{"calibration1.reach": None}),
        "other calibration": forged(**{"calibration0.usual": np.zeros(1)}),
    }
    path = tmp_path / "a.safetensors"
    assert forged() == about() == whole
    for name, content in broken.items():
        path.write_bytes(content)
        with pytest.raises(NotFittedError, match=r"a\.safetensors: this is not a whole baseline file") as refusal:
            load_baseline(path)
            pytest.fail(name)
        assert "\n" not in str(refusal.value), name


def test_the_error_for_a_missing_file_asks_to_fit_first(tmp_path):
    with pytest.raises(InfraScopeError, match="no such baseline; fit the baselines first"):
        load_baseline(tmp_path / "none.safetensors")


def npz(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
