"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field, field_validator

from infrascope_core.section import Section


class DeclaredComparison(Section):
    """A comparison that is kept current."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$")
    """What it goes by, in tables and as the name of its page."""
    before: tuple[str, ...] = Field(min_length=1)
    """Run keys, or patterns of them, of the runs before the change."""
    after: tuple[str, ...] = Field(min_length=1)
    """The same of the runs after it."""


class ComparisonSettings(Section):
    """Runs before a change and runs after it (Reveal, section 6)."""

    declared: tuple[DeclaredComparison, ...] = ()
    """Comparisons that are made anew whenever their runs change, each with a page. `before` and `after` are lists of
    run keys, or of patterns of them as on a command line (`train_*_node07`); a side may fit no run yet."""

    @field_validator("declared")
    @classmethod
    def _distinct(cls, declared: tuple[DeclaredComparison, ...]) -> tuple[DeclaredComparison, ...]:
        names = [one.name.lower() for one in declared]
        for one in declared:
            if names.count(one.name.lower()) > 1:  # their pages would be one file where case does not count
                raise ValueError(f"two comparisons have the name {one.name}, upper and lower case apart")
        return declared
