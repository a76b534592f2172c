"""From content to one self-contained file: template, scripts and data, and a policy under which nothing else runs.

What belongs here: how a page is put together. Nothing that a file names is markup: the template escapes, and the data
is a block of JSON without `<`. Nothing of it is invisible either, or turns the direction of what follows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from infrascope_core.patterns.held import HIGH, LOW, MEDIUM
from infrascope_core.quantities import quantity
from infrascope_core.recipes import Recipe
from infrascope_core.reports.model import RunReport
from infrascope_core.reports.rendering import VERDICTS
from infrascope_core.reports.wording import duration, moment
from infrascope_core.run_files.columns import unit

CHART_LIBRARY = "uPlot.iife.min.js"
_DATA = re.compile(r'<script type="application/json" id="data">(?P<data>[^<]*)</script>')
_LEVELS = {LOW: "low", MEDIUM: "medium", HIGH: "high"}


def page(template: str, scripts: Sequence[str], content: dict[str, Any], data: dict[str, Any]) -> str:
    """A page as text.

    Parameters
    ----------
    template : str
        Name of a template of this package.
    scripts : sequence of str
        Names of scripts in `assets`, in order; they share one scope.
    content : dict
        What the template shows.
    data : dict
        What the scripts draw; no NaN.
    """
    style = asset("uPlot.min.css") + asset("page.css")
    own = (
        "(function () {\n'use strict';\n"
        + "\n".join(asset(name) for name in scripts if name != CHART_LIBRARY)
        + "\n})();"
    )
    block = json.dumps(_visible(data), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    library = asset(CHART_LIBRARY) if CHART_LIBRARY in scripts else ""
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(own)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            **content,
            policy=policy,
            style=Markup(style),
            library=Markup(library),
            script=Markup(own),
            data=Markup(block),
        )
    )


def data_of(page_text: str) -> dict[str, Any]:
    """The data that the scripts of a page draw, as `page` was given it; all of its texts are `visible`.

    Raises
    ------
    ValueError
        The text is no page.
    """
    found = _DATA.search(page_text)
    if found is None:
        raise ValueError("a page with a block of data was expected")
    data: dict[str, Any] = json.loads(found["data"])
    return data


@cache
def asset(name: str) -> str:
    """A file of `assets`, as text."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )


def _shown(value: object) -> object:
    """What the template shows: markup of its own as it is, text with `visible` characters only."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _visible(value: Any) -> Any:
    """The same data, all of whose texts and names have `visible` characters only."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(name): _visible(part) for name, part in value.items()}
    return [_visible(part) for part in value] if isinstance(value, (list, tuple)) else value


def visible(text: str) -> str:
    """Text in which control characters and marks that turn the direction of writing are spelt out: `\\u202e`.

    Two names that differ in such a character only are still told apart.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def run_view(report: RunReport, run: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """What the template of a run's page shows beside the pictures."""
    days = {t.date() for e in report.episodes for t in (e.start, e.end)} | {row.start.date() for row in report.table}
    days |= {report.started_at.date()} if report.started_at else set()
    return {
        "r": report,
        "verdict": VERDICTS[report.verdict],
        "moment": partial(moment, len(days) > 1),
        "length": duration(timedelta(seconds=run["seconds"] or 0.0)),
        "words": lambda group: (recipe.by_name[group].words if group in recipe.by_name else "") or group,
        "level": lambda name: _LEVELS.get(name, "not known"),
        "several_hosts": len(report.hosts) > 1,
        "quantity": quantity,
        "unit": unit,
        "provenance": {
            "File": run["source"],
            "SHA-256": run["sha256"],
            "Samples": f"{run['samples'] or 0:,} of {run['metrics'] or 0:,} metrics",
            "Compared with": report.baseline,
            "Windows": f"{report.windows:,}, {report.judged_windows:,} judged, {report.anomalous_windows:,} anomalous",
            "InfraScope": version("infrascope"),
        },
    }
