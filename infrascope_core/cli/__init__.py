"""The command line: one file a command, named as the command; `app` only puts them together.

`console` holds what commands share: options, errors as one sentence, tables; `progress` the bar.
"""

from infrascope_core.cli.app import build_app

__all__ = ["build_app"]
