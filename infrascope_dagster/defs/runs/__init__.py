"""Per-run assets, their checks, and the sensor that finds run files."""
