"""Pages in small, as figures: what Dagster's UI shows of them.

What belongs here: pictures of what a page draws, from the data in it, so that both say the same.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from infrascope_core.pages.packing import from_singles

_TRACE, _EXPECTED, _ALARM, _FAULT = "#0b5cad", "#8c959f", "#d55e00", "#009e73"
"""Colours of pages (page.css), which the colour-blind can tell apart."""
_CHARTS = 3
"""Evidence charts in a run's picture."""
_ROWS = 12
"""Runs in the picture of the fleet."""


def run_overview(data: Mapping[str, Any]) -> Figure | None:
    """Surprisal of a run with its alarms and known faults, and its first evidence charts; None without windows.

    Parameters
    ----------
    data : mapping
        What the page of a run holds (`html.data_of`).
    """
    hosts = [host for host in data["ribbon"] if host["x"]]
    if not hosts:
        return None
    charts = data["charts"][:_CHARTS]
    figure = Figure(figsize=(7, 1.3 + 1.1 * len(charts)), layout="constrained")
    first, *others = np.atleast_1d(figure.subplots(1 + len(charts), 1, sharex=True))
    for host in hosts:
        first.plot(from_singles(host["x"]), from_singles(host["surprisal"]), color=_TRACE, linewidth=0.8)
        _shade(first, host["alarms"], data["faults"])
    first.set_title("surprisal of its windows; alarms orange, known faults green", fontsize=7, loc="left")
    for axes, chart in zip(others, charts, strict=True):
        axis, whole = data["axes"][chart["host"]], chart["whole"]
        low = from_singles(whole["low"])
        high = from_singles(whole["high"]) if "high" in whole else low
        if chart["expected"]:
            between = (from_singles(chart["expected"][end]) for end in ("low", "high"))
            axes.fill_between(from_singles(axis["expected"]), *between, color=_EXPECTED, alpha=0.4, linewidth=0)
        axes.fill_between(from_singles(axis["x"]), low, high, color=_TRACE, linewidth=0.8)
        _shade(
            axes, [span for host in hosts if host["host"] == chart["host"] for span in host["alarms"]], data["faults"]
        )
        axes.set_title(_plain(chart["metric"]), fontsize=7, loc="left")
    for axes in (first, *others):
        axes.tick_params(labelsize=6)
        axes.margins(x=0)
    figure.supxlabel("seconds since the first sample", fontsize=7)
    return figure


def fleet_overview(data: Mapping[str, Any]) -> Figure | None:
    """The runs of which most is anomalous, worst first, with the subsystem of each; None where there is none.

    Parameters
    ----------
    data : mapping
        What the index holds.
    """
    rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    worst = sorted((row for row in rows if row["share"]), key=lambda row: (-row["share"], row["run"]))[:_ROWS]
    if not worst:
        return None
    figure = Figure(figsize=(7, 0.8 + 0.22 * len(worst)), layout="constrained")
    axes = figure.subplots()
    names = [_plain(f"{row['subsystem'] or 'unknown'}: {row['run']}") for row in worst]
    axes.barh(range(len(worst)), [100 * row["share"] for row in worst], color=_ALARM)
    axes.set_yticks(range(len(worst)), names, fontsize=6)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=6)
    axes.set_xlabel("% of the judged windows that are anomalous", fontsize=7)
    return figure


def _shade(axes: Axes, alarms: list[list[float]], faults: list[dict[str, Any]]) -> None:
    for begin, end in alarms:
        axes.axvspan(begin, end, color=_ALARM, alpha=0.3, linewidth=0)
    for fault in faults:
        axes.axvspan(fault["from"], fault["to"], ymax=0.08, color=_FAULT, linewidth=0)


def _plain(name: str, most: int = 90) -> str:
    """A name that matplotlib takes for no formula, and that leaves room for the picture."""
    return (name if len(name) <= most else f"{name[: most - 1]}…").replace("$", r"\$")
