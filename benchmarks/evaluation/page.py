"""The page and its pictures, from figures alone: the same figures give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

from benchmarks.evaluation.simulated import Seeds
from infrascope_core.evaluation.data_set import DataSet, Evaluation, Target
from infrascope_core.evaluation.judged_run import ANY_FAULT, OURS
from infrascope_core.evaluation.judgement import METHODS
from infrascope_core.evaluation.settings import EvaluationSettings
from infrascope_core.settings import Settings

_AREAS = {"roc_auc": "ROC-AUC", "average_precision": "average precision", "vus_pr": "VUS-PR"}
_NAMES = _AREAS | {
    "event_recall": "share of faults found",
    "false_episodes_per_hour": "false episodes per healthy hour",
    "subsystem_right": "first subsystem right",
    "host_first": "host of the fault first",
    "hit_3": "culprit among the first 3 metrics",
    "false_window_share": "share of healthy windows flagged",
}
_RUN_BY_RUN = 30
"""Most runs with faults of a set that is shown run by run."""


@dataclass(frozen=True)
class Suite:
    """What was evaluated: the data sets, the plan of the simulated one, and which seeds it used."""

    data_sets: Sequence[DataSet]
    plan: Mapping[str, Any]
    seeds: Seeds
    real: bool


def write_page(result: Evaluation, suite: Suite, settings: EvaluationSettings, docs: Path) -> Path:
    """Write `evaluation.md` and the pictures below `evaluation/`; returns the page."""
    pictures = docs / "evaluation"
    pictures.mkdir(parents=True, exist_ok=True)
    _draw_areas(result, pictures / "average_precision.svg")
    has_levels = _draw_recall(result, suite, pictures / "event_recall.svg")
    template = Path(__file__).with_name("page.md.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    simulated = result.judgements.get(suite.plan["name"])
    page = environment.from_string(template).render(
        real=suite.real,
        level=f"{settings.level * 100:g}",
        settings=settings,
        sets=_sets(result),
        abouts=[f"**{s.name}**: {s.about.strip()}" for s in suite.data_sets if s.name in result.judgements],
        development=suite.seeds == "development",
        seeds=suite.plan["seeds"],
        runs_simulated=0
        if simulated is None
        else simulated.runs.height + len(result.splits[suite.plan["name"]].reference),
        targets=_targets(result, suite),
        separations=[(name, _separation(result, name)) for name in result.judgements],
        alarms=_alarms(result),
        recall_picture=has_levels,
        faults=[(name, _faults(result, name)) for name in result.judgements],
        single=list(_run_by_run(result)),
        remarks=list(_remarks(result)),
        set_settings=_settings(result),
    )
    target = docs / "evaluation.md"
    target.write_text(page, encoding="utf-8")
    return target


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _scope(
    figures: pl.DataFrame, data_set: str | None, part: str | None = None, fault: str | None = None
) -> pl.DataFrame:
    where = {"data_set": data_set, "part": part, "fault": fault}
    return figures.filter(pl.all_horizontal(pl.col(k).eq_missing(pl.lit(v, pl.String)) for k, v in where.items()))


def _value(rows: pl.DataFrame, figure: str, method: str | None = None) -> float | None:
    found = rows.filter((pl.col("figure") == figure) & pl.col("method").eq_missing(pl.lit(method, pl.String)))
    return found["value"][0] if found.height else None


def _cell(rows: pl.DataFrame, figure: str, method: str | None = None, digits: int = 2) -> str:
    found = rows.filter((pl.col("figure") == figure) & pl.col("method").eq_missing(pl.lit(method, pl.String)))
    if not found.height:
        return "–"
    value, low, high = found.select("value", "low", "high").row(0)
    interval = "" if low is None else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{value:.{digits}f}{interval}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _sets(result: Evaluation) -> str:
    rows = []
    for name, judgement in result.judgements.items():
        runs, reference = judgement.runs, result.splits[name].reference
        rows.append(
            [
                name,
                str(len(reference)),
                str(runs.height),
                str(int(runs["healthy"].sum())),
                str(runs["workload"].n_unique()),
                str(judgement.events.height),
                str(judgement.events["fault"].n_unique()),
                f"{runs['hours'].sum():.2f}",
                f"{runs['healthy_hours'].sum():.2f}",
            ]
        )
    heads = ["data set", "reference runs", "judged runs", "of them healthy", "workloads", "faults", "kinds", "hours"]
    return _table([*heads, "healthy hours"], rows)


def _targets(result: Evaluation, suite: Suite) -> str:
    rows = [
        [data_set.name, *row]
        for data_set in suite.data_sets
        if data_set.name in result.judgements
        for target in data_set.targets
        for row in _target(result, data_set.name, target)
    ]
    return _table(["data set", "what", "should be", "is", "reached"], rows)


def _target(result: Evaluation, data_set: str, target: Target) -> list[list[str]]:
    what = ", ".join(filter(None, (_NAMES.get(target.figure, target.figure), target.part, target.method)))
    if target.above:
        return [_above(row, what, target) for row in _wide(result, data_set, target.figure)]
    rows = _scope(result.figures, data_set, target.part)
    value = _value(rows, target.figure, target.method)
    limit = target.at_least if target.at_least is not None else target.at_most
    assert limit is not None  # a target has one of them
    met = value is not None and (value >= limit if target.at_least is not None else value <= limit)
    said = f"{'≥' if target.at_least is not None else '≤'} {limit:g}"
    reached = "unknown" if value is None else "yes" if met else "**no**"
    return [[what, said, _cell(rows, target.figure, target.method), reached]]


def _above(run: Mapping[str, Any], what: str, target: Target) -> list[str]:
    known = {method: run[method] for method in target.above if run.get(method) is not None}
    best = max(known, key=lambda method: known[method]) if known else None
    own = run.get(str(target.method))
    reached = "unknown" if own is None or best is None else "yes" if own > known[best] else "**no**"
    should = "–" if best is None else f"> {known[best]:.3f} ({best})"
    return [f"{what}, {run['workload']}", should, _number(own, 3), reached]


def _wide(result: Evaluation, data_set: str, figure: str) -> list[dict[str, Any]]:
    """One row per run with faults: workload, faults, and the figure by method."""
    judgement = result.judgements[data_set]
    faults = judgement.events.group_by("run_key").agg(faults=pl.col("fault").unique().sort().str.join(", "))
    areas = judgement.separation.filter(pl.col("fault") == ANY_FAULT)
    if areas.is_empty():
        return []
    wide = areas.pivot("method", index=["run_key", "workload"], values=figure)
    return wide.join(faults, on="run_key", how="left").sort("run_key").to_dicts()


def _separation(result: Evaluation, name: str) -> str:
    rows = _scope(result.figures, name)
    known = set(rows["method"].drop_nulls())
    return _table(
        ["method", *_AREAS.values()],
        [
            [f"**{m}**" if m in OURS else m, *(_cell(rows, figure, m, 3) for figure in _AREAS)]
            for m in METHODS
            if m in known
        ],
    )


_ALARMS: dict[str, Callable[[pl.DataFrame], str]] = {
    "found": lambda rows: _cell(rows, "event_recall"),
    "overlap": lambda rows: _number(_value(rows, "overlap")),
    "delay, s": lambda rows: _number(_value(rows, "delay_s"), 1),
    "first subsystem right": lambda rows: _cell(rows, "subsystem_right"),
    "host first": lambda rows: _cell(rows, "host_first"),
    "hit@1 (chance)": lambda rows: _hit(rows, 1),
    "hit@3 (chance)": lambda rows: _hit(rows, 3),
    "hit@5 (chance)": lambda rows: _hit(rows, 5),
    "hit@100 %": lambda rows: _number(_value(rows, "hit_rate")),
}


_FALSE = ("false episodes per hour", "share of healthy windows flagged", "share of healthy runs said to differ")


def _hit(rows: pl.DataFrame, k: int) -> str:
    hit = _cell(rows, f"hit_{k}")
    return hit if hit == "–" else f"{hit} ({_number(_value(rows, f'chance_{k}'))})"


def _alarms(result: Evaluation) -> str:
    lines = []
    for name in result.judgements:
        parts = _parts(result, name)
        for part in [None, *parts]:
            rows = _scope(result.figures, name, part)
            false = _cell(rows, "false_episodes_per_hour"), _number(_value(rows, "false_window_share"), 4)
            differ = _cell(rows, "healthy_differ")
            label = f"**{name}**" if part is None else f"{name}, {part or 'top'}"
            lines.append([label, *(cell(rows) for cell in _ALARMS.values()), *false, differ])
    return _table(["runs", *_ALARMS, *_FALSE], lines)


def _parts(result: Evaluation, name: str) -> list[str]:
    """Parts of a data set, if it has faults in several of them."""
    judgement = result.judgements[name]
    if judgement.events["part"].n_unique() < 2:  # of one there is nothing to tell apart
        return []
    found = set(judgement.runs["part"])
    order = {"low": 0, "middle": 1, "high": 2}
    return sorted(found, key=lambda part: (order.get(part, 3), part))


def _faults(result: Evaluation, name: str) -> str:
    lines = []
    parts = [
        p
        for p in _parts(result, name)
        if not _scope(result.figures, name, p).filter(pl.col("figure") == "event_recall").is_empty()
    ]
    for fault in sorted(result.judgements[name].events["fault"].unique()):
        rows = _scope(result.figures, name, None, fault)
        by_part = [_number(_value(_scope(result.figures, name, p, fault), "event_recall")) for p in parts]
        area = _cell(rows, "roc_auc", "combination")
        lines.append([fault, *(cell(rows) for cell in _ALARMS.values()), area, *by_part])
    return _table(["fault", *_ALARMS, "ROC-AUC, combination", *(f"found, {part}" for part in parts)], lines)


def _run_by_run(result: Evaluation) -> Iterable[tuple[str, str]]:
    for name, judgement in result.judgements.items():
        if 0 < judgement.events["run_key"].n_unique() <= _RUN_BY_RUN:
            for figure in ("roc_auc", "average_precision"):
                rows = _wide(result, name, figure)
                methods = [method for method in METHODS if any(row.get(method) is not None for row in rows)]
                lines = [
                    [row["run_key"], row["faults"], *(_number(row.get(method), 3) for method in methods)]
                    for row in rows
                ]
                yield f"{name}: {_AREAS[figure]}", _table(["run", "faults", *methods], lines)


def _remarks(result: Evaluation) -> Iterable[str]:
    for name, judgement in result.judgements.items():
        yield from (f"{name}: {note}" for note in judgement.notes)
        yield from (f"{name}: {path.name} {said}" for path, said in judgement.problems)
    yield from result.unjudged.values()


def _settings(result: Evaluation) -> str:
    default = _flat(Settings().model_dump(mode="json"))
    changed = {
        name: {key: value for key, value in _flat(own.model_dump(mode="json")).items() if value != default[key]}
        for name, own in result.settings.items()
    }
    keys = sorted({key for change in changed.values() for key in change})
    rows = [
        [f"`{key}`", json.dumps(default[key]), *(json.dumps(changed[name].get(key, default[key])) for name in changed)]
        for key in keys
    ]
    return _table(["setting", "default", *changed], rows) if keys else "none."


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _save(figure: Figure, path: Path) -> None:
    # no date and no random names of elements: the same picture is the same file
    with mpl.rc_context({"svg.hashsalt": "infrascope", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_areas(result: Evaluation, path: Path) -> None:
    """Average precision by method, one panel a data set, with intervals."""
    names = list(result.judgements)
    figure = Figure(figsize=(2.6 + 2.6 * len(names), 3.6), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        rows = _scope(result.figures, name).filter(pl.col("figure") == "average_precision")
        for place, method in enumerate(METHODS):
            found = rows.filter(pl.col("method") == method)
            if found.height:
                value, low, high = found.select("value", "low", "high").row(0)
                colour = "tab:red" if method == "combination" else "tab:orange" if method in OURS else "tab:blue"
                panel.plot([value], [place], "o", color=colour)
                if low is not None:
                    panel.plot([low, high], [place, place], color=colour)
        panel.set(title=name, xlim=(0, 1), xlabel="average precision", yticks=range(len(METHODS)), yticklabels=METHODS)
        panel.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    _save(figure, path)


def _draw_recall(result: Evaluation, suite: Suite, path: Path) -> bool:
    """Share of simulated faults found, kinds by intensities; False where there are none."""
    name = suite.plan["name"]
    if name not in result.judgements:
        path.unlink(missing_ok=True)
        return False
    levels = [level for level in suite.plan["intensities"] if level in set(result.judgements[name].events["part"])]
    kinds = sorted(result.judgements[name].events["fault"].unique())
    values = [[_value(_scope(result.figures, name, level, kind), "event_recall") for level in levels] for kind in kinds]
    figure = Figure(figsize=(4.8, 0.8 + 0.3 * len(kinds)), layout="constrained")
    axes = figure.subplots()
    shades = [[float("nan") if value is None else value for value in row] for row in values]
    axes.imshow(shades, vmin=0, vmax=1, cmap="YlGn", aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            axes.text(x, y, _number(value), ha="center", va="center")
    axes.set(xticks=range(len(levels)), xticklabels=levels, yticks=range(len(kinds)), yticklabels=kinds)
    axes.set_title("share of faults found")
    _save(figure, path)
    return True
