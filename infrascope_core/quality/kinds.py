"""Kinds of metrics that are known by name: cumulative counters and levels, as `counters.yaml` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from infrascope_core.store.lake import fingerprint

_DATA = (resources.files(__package__) / "counters.yaml").read_text(encoding="utf-8")
CODE_VERSION = fingerprint(_DATA)
"""Changes with what is known."""


@dataclass(frozen=True)
class Kinds:
    """Patterns of whole metric names (`Source:name.instance[unit]`, host-free), ignoring case; RE2 and Python alike."""

    counters: str
    levels: str


@lru_cache(maxsize=1)
def known_kinds() -> Kinds:
    """The kinds of `counters.yaml`."""
    data = yaml.safe_load(_DATA)
    return Kinds(_pattern(data["counters"]), _pattern(data["levels"]))


def _pattern(rules: list[dict[str, Any]]) -> str:
    """One pattern for all rules: a source, a name, then instances and a unit."""
    whole = (rf"(?:{rule['source']}): ?(?:{'|'.join(rule['names'])})(?:\.[^\[]*)?(?:\[.*\])?" for rule in rules)
    return "|".join(f"(?:{one})" for one in whole)
