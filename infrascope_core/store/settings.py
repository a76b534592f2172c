"""The settings of what the data folder keeps."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class RetentionSettings(Section):
    """How long samples and features are kept; what was made of them stays."""

    days: float | None = Field(None, gt=0)
    """Days since the beginning of a run, after which Dagster's daily job drops them; none: never."""
    least_free: float = Field(0.1, ge=0, lt=1)
    """Share of the disk that must be free; below it, a check warns."""
