"""A report as text: markdown, JSON, plain text, and its row in the warehouse.

What belongs here: how a report is written down, nothing about what it says. The layouts are `report.md.jinja` and
`report.txt.jinja`. Nothing that a file names is trusted: names and claims are escaped wherever they are shown.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files

import jinja2
import polars as pl

from infrascope_core.reports.model import RunReport
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.reports.wording import moment, printable

VERDICTS = {"anomalous": "Anomalous", "differs": "Differs as a whole", "normal": "Normal", "not_judged": "Not judged"}


def as_row(report: RunReport, markdown: str, json_file: str) -> pl.DataFrame:
    """The report's row of `anomaly_report`; the files are given relative to the data folder."""
    worst = report.episodes[0].subsystems if report.episodes else []
    row = {
        "run_key": report.run_key,
        "verdict": report.verdict,
        "why": report.why,
        "subsystem": worst[0].subsystem if worst else report.offsets[0].subsystem if report.offsets else None,
        "differs": bool(report.offsets),
        "episodes": len(report.episodes),
        "windows": report.windows,
        "anomalous_windows": report.anomalous_windows,
        "not_watched": [unwatched.subsystem for unwatched in report.not_watched],
        "baseline": report.baseline,
        "next_step": report.next_step,
        "markdown": markdown,
        "json": json_file,
    }
    return pl.DataFrame([row], schema=ANOMALY_REPORT.schema)


def as_json(report: RunReport) -> str:
    """The report as JSON: keys sorted, ASCII only, no NaN and no infinity (they become null)."""
    return json.dumps(json.loads(report.model_dump_json()), sort_keys=True, indent=1, allow_nan=False) + "\n"


def as_markdown(report: RunReport) -> str:
    """The report as markdown (with GitHub's tables); every value is escaped on its way in."""
    return re.sub(r"\n{3,}", "\n\n", _laid_out(report, "report.md.jinja", escape)).strip() + "\n"


def as_text(report: RunReport, width: int | None = None) -> str:
    """The report as plain text, without control characters; headings begin at the margin, all else is indented.

    Parameters
    ----------
    report : RunReport
        The report.
    width : int, optional
        Columns at which lines are wrapped, but never within a word; by default they are not.
    """
    text = re.sub(r"\n{3,}", "\n\n", _laid_out(report, "report.txt.jinja", _plain)).strip("\n")
    return "\n".join(_wrapped(line, width) for line in text.splitlines()) + "\n"


def _wrapped(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip()) + (2 if line.lstrip().startswith("- ") else 0)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _plain(value: object) -> str:
    """Text on one line, without control characters."""
    return "–" if value is None else printable(value).strip()


def _laid_out(report: RunReport, layout: str, finalize: Callable[[object], str]) -> str:
    days = {report.started_at.date()} if report.started_at else set()
    days |= {t.date() for e in report.episodes for t in (e.start, e.end)} | {row.start.date() for row in report.table}
    return _template(layout, finalize).render(
        r=report, several_hosts=len(report.hosts) > 1, verdicts=VERDICTS, moment=partial(moment, len(days) > 1)
    )


_SPECIAL = re.compile(r"([\\`*_\[\]<>|#!~&@$^{}])")


def escape(value: object) -> str:
    """Text that markdown shows as it is: on one line, without control characters, links or markup."""
    if value is None:
        return "–"
    shown = printable(value).strip()
    shown = _SPECIAL.sub(r"\\\1", shown)
    shown = shown.replace("://", "\\://")
    shown = re.sub(r"(?i)\b(www)\.", r"\1\\.", shown)
    shown = re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", shown)
    return re.sub(r"^([-+=])", r"\\\1", shown)


@cache
def _template(layout: str, finalize: Callable[[object], str]) -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=False,  # escaping for HTML would not do: `finalize` escapes for the form at hand
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": lambda x: "n/a" if x is None else f"{x:.3g}",
        "percent": "{:.0%}".format,
    }
    return environment.from_string((files(__package__) / layout).read_text(encoding="utf-8"))
