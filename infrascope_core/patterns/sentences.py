"""Patterns in words: what an operator would repeat to a colleague.

What belongs here: sentences from rows of tables and the words of the recipe's groups; codes are never
shown without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from infrascope_core.patterns.held import HIGH, LOW, MEDIUM, group_of, level_of
from infrascope_core.patterns.identity import AS_CLAIMED, OTHER, TOO_FEW, runs_needed
from infrascope_core.patterns.settings import IdentitySettings
from infrascope_core.recipes import MetricGroup, Recipe

_LEVELS = {LOW: "low", MEDIUM: "medium", HIGH: "high"}
_ONSETS = {LOW: "fall", HIGH: "rise"}
_ODD_RUNS = 3
"""Most runs that are named because they do not look like what they claim to be."""


def rule_sentence(rule: Mapping[str, Any], recipe: Recipe) -> str:
    """A rule in a sentence.

    Parameters
    ----------
    rule : mapping
        A row of `association_rules`, but for its sentence.
    recipe : Recipe
        Its groups' words; a group that the recipe lacks is named as it is.
    """
    groups = recipe.by_name
    left = " and ".join(_holds(item, groups) for item in rule["antecedent"])
    (right,) = rule["consequent"]
    often = f"{rule['confidence']:.0%} of such windows, {rule['expected']:.0%} would be expected in the same runs"
    runs = f"{rule['agreeing_runs']} of {rule['informative_runs']} runs"
    example = "".join(f" For example {e['run_key']} at {e['start_ts']:%H:%M:%S}." for e in rule["examples"][:1])
    return f"While {left}, {_holds(right, groups)}: {often}; {runs}.{example}"


def sequence_sentence(row: Mapping[str, Any], recipe: Recipe) -> str:
    """An order in time in a sentence; `row` is one of `sequential_patterns`."""
    groups = recipe.by_name
    first, then = (_begins(row[side], groups) for side in ("first", "then"))
    often = f"{row['times']} of {row['of']} times, {row['expected']:.0f} expected"
    runs = f"{row['agreeing_runs']} of {row['informative_runs']} runs"
    return f"{first[0].upper()}{first[1:]}, then {then} {row['lag_s']:g} s later: {often}; {runs}."


def contrast_sentence(row: Mapping[str, Any], recipe: Recipe) -> str:
    """A contrast in a sentence; `row` is one of `contrasts`."""
    holds = _holds(row["item"], recipe.by_name)
    share, other = f"{row['share']:.0%} of the time", f"{row['other_share']:.0%}"
    if row["kind"] == "fault":
        return f"During {row['of']}, {holds} {share}, else {other} ({_runs(row['runs'])})."
    where = {
        "phase": (f"{row['of']} runs of {row['within']}", f"{row['against']} runs"),
        "workload": (f"{row['of']} ({row['within']})", row["against"]),
        "host": (f"{row['within']} on {row['of']}", f"on {row['against']}"),
    }
    own, others = where[row["kind"]]
    before = "" if others.startswith("on ") else "in "
    return f"In {own}, {holds} {share}, {before}{others} {other} ({row['runs']} and {_runs(row['other_runs'])})."


def identity_sentence(found: pl.DataFrame, recipe: Recipe, settings: IdentitySettings) -> str:
    """Whether the runs are what they claim, in a sentence; `found` is the table `run_identity`."""
    answered = found.filter(pl.col("status") != TOO_FEW)
    if answered.is_empty():
        why = f"it takes {runs_needed(settings) + 1} runs of a platform, of workloads with several runs each"
        if found.is_empty():  # runs that are not in the table have no levels to go by
            why = "no metric of theirs is in a metric group"
        return f"Whether runs are what their names claim cannot be told: {why}."
    odd = answered.filter(pl.col("status") != AS_CLAIMED).sort("status", "claimed_p_value", "run_key", "host")
    like, left = answered.height - odd.height, found.height - answered.height
    said = [f"{like} of {_runs(answered.height)} {'looks' if like == 1 else 'look'} like the workload of the name."]
    for row in odd.head(_ODD_RUNS).iter_rows(named=True):
        words = [recipe.by_name[name].words or name if name in recipe.by_name else name for name in row["differs_in"]]
        other = f"like {row['nearest']}" if row["status"] == OTHER else "like none"
        said.append(f"{row['run_key']} looks {other}{', unlike in ' + ', '.join(words) if words else ''}.")
    if odd.height > _ODD_RUNS:
        said.append(f"{odd.height - _ODD_RUNS} more do not look like theirs.")
    if odd.height:
        said.append(f"Of runs that are what they claim, {settings.false_unknown:.0%} are not recognized.")
    if left:
        said.append(f"Of {_runs(left)} it cannot be told: no other run has the same name, at another time.")
    return " ".join(said)


def _begins(item: str, groups: Mapping[str, MetricGroup]) -> str:
    """The onset of an item as a clause: `page faults rise`."""
    name = group_of(item)
    group = groups.get(name)
    words, plural = (group.words or name, group.plural) if group else (name, False)
    verb = _ONSETS[level_of(item)]
    return f"{words} {verb if plural else verb + 's'}"


def _holds(item: str, groups: Mapping[str, MetricGroup]) -> str:
    """An item as a clause: `page faults are high`."""
    name, level = group_of(item), level_of(item)
    group = groups.get(name)
    words, verb = (group.words or name, "are" if group.plural else "is") if group else (name, "is")
    return f"{words} {verb} {_LEVELS.get(level, level)}"


def _runs(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"
