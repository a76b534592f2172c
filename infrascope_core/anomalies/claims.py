"""The words of claims, as `claims.yaml` has them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def wording() -> dict[str, Any]:
    """Everything in `claims.yaml`."""
    content: dict[str, Any] = yaml.safe_load((files(__package__) / "claims.yaml").read_text(encoding="utf-8"))
    return content
