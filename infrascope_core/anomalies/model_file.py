"""Model files: a baseline as one file of plain arrays (safetensors) and a JSON entry, without pickle.

What belongs here: writing and reading, and making sure that what was read is a whole baseline of this format.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from infrascope_core.anomalies.baseline import Baseline, Identity
from infrascope_core.anomalies.calibration import Calibration
from infrascope_core.anomalies.detectors import DETECTORS, calibration_groups
from infrascope_core.anomalies.matrix import PSEUDO_FEATURES
from infrascope_core.anomalies.references import References
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.standardisation import Moments
from infrascope_core.anomalies.tables import FEATURES
from infrascope_core.errors import NotFittedError
from infrascope_core.numeric import Array, Arrays, stored_array
from infrascope_core.store.atomic import aside

FORMAT = 7
"""Raise it when older files cannot be read any more."""
SUFFIX = ".safetensors"
OLDER_SUFFIXES = (".npz",)
"""Of formats before 4; such files are removed when baselines are fitted."""
_ENTRY = "baseline"
"""Name of the JSON entry."""


class Header(BaseModel):
    """What a baseline holds besides arrays.

    `digest` is of all the rest and of the arrays: a file that was damaged on the disk must not judge any run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    format: int = FORMAT
    identity: Identity
    names: tuple[tuple[str, str], ...]
    detectors: tuple[str, ...]
    thresholds: dict[str, float]
    settings: DetectorSettings
    folds: tuple[int, ...] = ()
    digest: str = ""


def save_baseline(baseline: Baseline, path: Path) -> None:
    """Write a model file; equal baselines give equal bytes.

    Raises
    ------
    InfraScopeError
        It cannot be written.
    """
    parts = {"moments": baseline.moments.arrays(), "references": baseline.references.arrays()}
    parts["levels"] = {"between": baseline.between, "heights": baseline.heights.astype(np.float32)}
    parts |= {d.name: d.state() for d in baseline.detectors}
    parts |= {
        f"{d.name}{fold}": fitted.state()
        for d, folds in zip(baseline.detectors, baseline.held_out, strict=bool(baseline.held_out))
        for fold, fitted in enumerate(folds)
    }
    parts |= {f"calibration{i}": calibration.arrays() for i, calibration in enumerate(baseline.calibrations)}
    arrays = {f"{part}.{key}": np.ascontiguousarray(a) for part, state in parts.items() for key, a in state.items()}
    header = Header(
        identity=baseline.identity,
        names=baseline.names,
        detectors=tuple(d.name for d in baseline.detectors),
        thresholds=baseline.thresholds,
        settings=baseline.settings,
        folds=tuple(len(folds) for folds in baseline.held_out),
    )
    header = header.model_copy(update={"digest": digest(header, arrays)})
    with aside(path) as file:
        file.write_bytes(encoded(header.model_dump_json(), arrays))


def encoded(header: str, arrays: Arrays) -> bytes:
    """The bytes of a model file."""
    return bytes(save(arrays, {_ENTRY: header}))


def digest(header: Header, arrays: Arrays) -> str:
    """Hash of a header, and of arrays with their names, types and shapes."""
    found = hashlib.sha256(header.model_dump_json(exclude={"digest"}).encode())
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        found.update(arrays[name].tobytes())
    return found.hexdigest()


def load_baseline(path: Path) -> Baseline:
    """Read a model file.

    Raises
    ------
    NotFittedError
        There is no such file, or it is not a whole model file of this format.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = Header.model_validate_json((file.metadata() or {}).get(_ENTRY, ""))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # it is not iterable
        return _baseline(header, arrays)
    except FileNotFoundError:
        raise NotFittedError(f"{path}: there is no such baseline; fit the baselines first.") from None
    # a damaged or forged file: not in the format or the schema (a ValueError), without an array, or with one of a type
    # that numpy lacks
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise NotFittedError(
            f"{path}: this is not a whole baseline file of format {FORMAT} ({_reason(error)}); fit the baselines again."
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return ": ".join([*(str(part) for part in first["loc"][:1]), first["msg"]])
    return (str(error).splitlines() or [type(error).__name__])[0]


def _baseline(header: Header, arrays: Arrays) -> Baseline:
    if header.format != FORMAT:
        raise ValueError(f"format {header.format}")
    if digest(header, arrays) != header.digest:
        raise ValueError("its content is not what was saved")
    features = len(header.names)
    if not {feature for _, feature in header.names} <= {*FEATURES, *PSEUDO_FEATURES}:
        raise ValueError("unknown features")
    if header.detectors != tuple(DETECTORS) or header.thresholds.keys() != DETECTORS.keys():
        raise ValueError("other detectors")

    def part(name: str) -> Arrays:
        return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

    detectors = tuple(DETECTORS[name].from_state(part(name), features) for name in header.detectors)
    return Baseline(
        header.identity,
        header.names,
        Moments.from_arrays(part("moments"), features),
        References.from_arrays(part("references"), features),
        detectors,
        header.thresholds,
        tuple(
            Calibration.from_arrays(part(f"calibration{i}"), len(group))
            for i, group in enumerate(calibration_groups(detectors))
        ),
        _between(part("levels"), features),
        _heights(part("levels"), len(part("references")["run"]), len(calibration_groups(detectors))),
        header.settings,
        tuple(
            tuple(DETECTORS[name].from_state(part(f"{name}{fold}"), features) for fold in range(folds))
            for name, folds in zip(header.detectors, header.folds, strict=bool(header.folds))
        ),
    )


def _heights(arrays: Arrays, windows: int, groups: int) -> Array:
    heights = stored_array(arrays, "heights", np.float32, (windows, groups)).astype(np.float64)
    if np.isinf(heights).any():
        raise ValueError("a score of a reference is infinite")
    return heights


def _between(arrays: Arrays, features: int) -> Array:
    between = stored_array(arrays, "between", np.float64, (features,))
    if not ((between > 0) & np.isfinite(between)).all():
        raise ValueError("levels of references do not lie apart")
    return between
