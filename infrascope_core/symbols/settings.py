"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class WindowSettings(Section):
    """Symbolic windows, counted in samples; 10 samples are 1 s at 100 ms (DESIGN section 4)."""

    samples: int = Field(10, ge=1)
