"""Everything that Dagster loads: one concept a file, each made from the graph that is being loaded."""
