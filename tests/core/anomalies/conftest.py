from __future__ import annotations

import pytest

from infrascope_core.anomalies.baseline import Baseline
from tests.core.anomalies.generated import fitted, runs


@pytest.fixture(scope="session")
def baseline() -> Baseline:
    """Of four runs of 100 windows with three metrics."""
    return fitted(runs(4))
