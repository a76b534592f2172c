"""Other people's telemetry as run files: one file for each job and host (docs/importing.md).

The way through the package: a source (`prometheus`, `openmetrics`, `sadf`, `nvidia_smi`, `dcgmi`, `ldms`, `table`)
gives `samples`: series with labels, and their values as they were read. A `mapping`, which is data (`mappings/*.yaml`),
says which series is which column. `jobs` says which hosts and times make a run, `joining` puts the samples of a host
into rows, and `writing` makes the run file and the types of its metrics. `run_files` reads them like any others.
"""
