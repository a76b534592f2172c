"""The code location: `defs` for Dagster, `build_defs` for tests, for other data folders and for other graphs."""

from pathlib import Path

import dagster as dg

from infrascope_core.pipeline import GRAPH
from infrascope_core.store.graph import Graph
from infrascope_dagster.loading import Project, loading
from infrascope_dagster.resources import DataFolderResource, from_environment


def build_defs(infrascope: DataFolderResource, graph: Graph = GRAPH) -> dg.Definitions:
    """All definitions of the folder `defs`, around one resource."""
    with loading(Project(graph, infrascope)):
        loaded = dg.load_from_defs_folder(path_within_project=Path(__file__))
    # steps of one run share a data folder and two cores: no process per step
    around = dg.Definitions(resources={"infrascope": infrascope}, executor=dg.in_process_executor)
    return dg.Definitions.merge(loaded, around)


defs = build_defs(from_environment())
