"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class WindowSettings(Section):
    """Symbolic windows, counted in samples (docs/design.md, Recipes)."""

    samples: int = Field(10, ge=1)
    """Length of a window, in samples: 1 s at 100 ms. An incomplete last window is dropped."""
