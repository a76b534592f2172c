"""The entry point of `infrascope`."""

from infrascope_core.cli import build_app


def main() -> None:
    """Run the command line."""
    build_app()()
