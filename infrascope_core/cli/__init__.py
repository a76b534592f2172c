"""The command line: one file a command that is more than a call; `app.py` puts them together."""

from infrascope_core.cli.app import build_app

__all__ = ["build_app"]
