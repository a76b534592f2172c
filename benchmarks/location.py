"""The code location of benchmarks: the project's own, without what starts work by itself."""

import dagster as dg

from infrascope_dagster.definitions import defs as whole

defs = dg.Definitions(assets=whole.assets, resources=whole.resources, executor=whole.executor)
