"""The entry point of `infrascope`: the core's command line, given the Dagster graph to materialize."""

from infrascope_core.cli import build_app
from infrascope_core.pipeline import OnProduct, Pipeline


def _materialize(pipeline: Pipeline, refit: bool, on_product: OnProduct) -> None:
    # Dagster takes seconds to import: `--help`, `summary` and `collect` do without
    from infrascope_dagster.in_process import bring_up_to_date  # noqa: PLC0415

    bring_up_to_date(pipeline, refit, on_product)


def main() -> None:
    """Run the command line."""
    build_app(_materialize)()
