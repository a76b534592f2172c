"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class WindowSettings(Section):
    """Symbolic windows (docs/design.md, Recipes). An incomplete last window is dropped."""

    samples: int = Field(10, ge=1)
    """Length of a window in samples, for recipes that count so (`infrascope`): 1 s at 100 ms."""
    seconds: float = Field(1.0, gt=0)
    """Length of a window in seconds, for recipes that count so (`default`); at least one sample."""
