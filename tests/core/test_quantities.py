"""Values with their units, as people read them."""

from __future__ import annotations

import pytest

from infrascope_core.quantities import quantity


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (25_165_824, "kB", "24 GB"),
        (2_048, "kB", "2 MB"),
        (530_579_456, "Bytes/s", "506 MB/s"),
        (12, "Bytes", "12 B"),
        (81_559, "MiB", "79.6 GB"),
        (-3_000_000, "kB", "-2.86 GB"),
        (28.341, "%", "28.3 %"),
        (1_204, "count", "1204"),
        (120_400, "count", "120,400"),
        (0.0, "", "0"),
        (-0.0, "kB", "0 B"),
        (1_410.2, "MHz", "1410 MHz"),
        (5.063e20, "-", "506300000000000000000"),
        (55, "count/s", "55/s"),
        (float("inf"), "%", "inf %"),
    ],
)
def test_quantities(value, unit, shown):
    assert quantity(value, unit) == shown
