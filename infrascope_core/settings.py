"""Every tunable: its default, its unit, and where the default comes from.

Settings are frozen pydantic models, so they can be hashed into the fingerprint of a product and carried by
a Dagster resource. Domain knowledge (metric groups, subsystems, claims) is not here but in data files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infrascope_core.errors import SettingsError


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def digest(self) -> str:
        """Short stable hash of all values, for fingerprints."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


class ReaderSettings(_Frozen):
    """Reading of run files."""

    min_fields_for_tabs: int = Field(5, ge=2)
    """Fewer tab-separated header fields than this and commas are tried (notebook of seed 000, loader)."""
    max_bytes: int = Field(2**30, ge=1)
    """Largest unpacked run file, in bytes; the largest of the public data set has about 0.2 GB (FORMAT)."""
    max_columns: int = Field(20_000, ge=2)
    """Most columns of a run file; a two-host file of the public data set has 1,582 (FORMAT)."""


class WindowSettings(_Frozen):
    """Symbolic windows, counted in samples; 10 samples are 1 s at 100 ms (DESIGN section 4)."""

    samples: int = Field(10, ge=1)


class FeatureSettings(_Frozen):
    """Sliding feature windows, counted in samples; 3 s windows every 1 s at 100 ms (Reveal, section 4.2)."""

    samples: int = Field(30, ge=3)
    stride: int = Field(10, ge=1)


class MiningSettings(_Frozen):
    """Frequent itemsets and association rules."""

    min_support: float = Field(0.01, gt=0, le=1)
    """Share of a scope's baskets (seed 000: feasibility at 1 %)."""
    max_size: int = Field(4, ge=1)
    """Longest itemset; longer ones repeat their parts and multiply the table."""
    min_confidence: float = Field(0.6, ge=0, le=1)
    min_baskets: int = Field(100, ge=1)
    """A scope with fewer baskets is not mined: at 1 % support a single basket would make a pattern."""


class DetectorSettings(_Frozen):
    """Baselines and the three detectors (Reveal, section 4.3)."""

    min_windows: int = Field(30, ge=2)
    """Fewest feature windows to fit a baseline on; a workload with fewer gets none."""
    max_windows: int = Field(8_000, ge=2)
    """Most windows a baseline is fitted on (a seeded sample of the rest), so that memory stays flat: at
    400 metrics and 10 features the matrix has 256 MB, and a fit stays below 2 GiB (DESIGN section 7)."""
    opening_windows: int = Field(3, ge=0)
    """First windows of a run, which are compared with other runs' openings: 3 windows with a stride of 1 s hold
    the seconds in which a process starts (seen in the sample: windows 0 to 2)."""
    flag_quantile: float = Field(0.99, gt=0, lt=1)
    pca_variance: float = Field(0.95, gt=0, le=1)
    contamination: float = Field(0.01, gt=0, le=0.5)
    trees: int = Field(100, ge=1)
    random_state: int = 0
    reasons_per_window: int = Field(5, ge=1)


class Settings(_Frozen):
    """All settings of a pipeline run."""

    recipe: str = "default"
    reader: ReaderSettings = ReaderSettings()
    windows: WindowSettings = WindowSettings()
    features: FeatureSettings = FeatureSettings()
    mining: MiningSettings = MiningSettings()
    detectors: DetectorSettings = DetectorSettings()


Platform = Literal["gpu", "cpu"]


def load_settings(path: str | Path | None) -> Settings:
    """Settings from a YAML file that names only what differs from the defaults; None gives the defaults.

    Raises
    ------
    SettingsError
        The file cannot be read, names an unknown setting, or holds a value out of its range.
    """
    if path is None:
        return Settings()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return Settings.model_validate({} if content is None else content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SettingsError(f"{path}: {where}: {first['msg']}") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{path}: no readable YAML ({str(error).splitlines()[0]})") from None
