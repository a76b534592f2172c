"""The code location of benchmarks: the project's own, without what starts work by itself."""

import dagster as dg

from infrascope_dagster import definitions

defs = dg.Definitions(
    assets=definitions.defs.assets, resources=definitions.defs.resources, executor=definitions.defs.executor
)
