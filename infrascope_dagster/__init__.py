"""Orchestration of InfraScope with Dagster: assets, checks, automation. The science is in `infrascope_core`."""
