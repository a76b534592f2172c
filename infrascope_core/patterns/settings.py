"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class MiningSettings(Section):
    """Frequent itemsets and association rules."""

    min_support: float = Field(0.01, gt=0, le=1)
    """Share of a scope's baskets (1 %, as in the InfraScope notebook)."""
    max_size: int = Field(4, ge=1)
    """Most items of an itemset; longer ones repeat their parts and multiply the table."""
    min_confidence: float = Field(0.6, ge=0, le=1)
    """Least confidence of a rule: share of the antecedent's baskets that also hold the consequent."""
    min_baskets: int = Field(100, ge=1)
    """A scope with fewer baskets is not mined: at 1 % support a single basket would make a pattern."""
