"""Association rules: while some items hold, another does, more often than the same runs would have it by chance.

What belongs here: which rules are tested, which of them hold up, and their measures (Agrawal, Imielinski and Swami,
SIGMOD 1993). The test is in `co_occurrence`; whether a rule has times of its own in `timing`; its words in `sentences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from scipy.stats import false_discovery_control

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.co_occurrence import Overlap, Side, by_shift, chance_of_as_much, normal_chance
from infrascope_core.patterns.held import MEDIUM, Held, Items, group_of
from infrascope_core.patterns.sentences import rule_sentence
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES, EXAMPLES
from infrascope_core.patterns.telling import few, in_words
from infrascope_core.patterns.timing import COURSE, OWN, timings
from infrascope_core.recipes import Recipe

SIGNIFICANT = 0.05
"""Largest q-value of a rule, and largest probability of what else it must show."""
_AGREEING = 2 / 3
"""Least share of the informative runs in which both sides overlap more than expected."""
_TOLD = 5
"""Most rules that are shown of a timing."""
_EXAMPLES = 3
"""Most examples of a rule, each of another run."""
_AT_ONCE = 2**22
"""Windows x rules that are looked at together, to bound memory."""


@dataclass(eq=False)
class Tally:
    """What all runs of a scope add up to.

    Attributes
    ----------
    single : Overlap, items x items
        Each item with each other.
    joint : Overlap, (pairs of items) x items
        Windows that hold two items with each other item; pairs in the order of `pairs_of`.
    within : Overlap, (items x items) x items
        Of the windows that hold the first item alone, the second with each other: row first x items + second.
    windows : int
        How many there are.
    """

    items: Items
    max_antecedent: int
    windows: int = 0
    single: Overlap = field(init=False)
    joint: Overlap = field(init=False)
    within: Overlap = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.items.names)
        self.single = Overlap.nothing(n, n)
        deep = self.max_antecedent > 1
        self.joint = Overlap.nothing(len(pairs_of(self.items)) if deep else 0, n)
        self.within = Overlap.nothing(n * n if deep else 0, n)

    def add(self, run: RunOverlaps) -> None:
        """Add a run."""
        self.windows += run.windows
        self.single.add(run.single)
        for at, joint in run.joint:
            self.joint.add(joint, at)
        for at, within in run.within:
            self.within.add(within, at)


def pairs_of(items: Items) -> Ints:
    """Pairs of items of different groups, the first before the second: pairs x 2."""
    group = items.group
    first, second = np.triu_indices(len(group), 1)
    different = group[first] != group[second]
    return np.stack([first[different], second[different]], axis=1)


@dataclass(frozen=True, eq=False)
class RunOverlaps:
    """The same of one run: overlaps with the rows of a tally that they are added to."""

    windows: int
    single: Overlap
    joint: Sequence[tuple[slice, Overlap]]
    within: Sequence[tuple[slice, Overlap]]


def run_overlaps(holds: Mask, items: Items, max_antecedent: int) -> RunOverlaps:
    """What one run adds to a tally.

    Parameters
    ----------
    holds : ndarray of bool, windows x items
        See `Held`.
    items : Items
        The columns.
    max_antecedent : int
        1 or 2.
    """
    n, group, whole = len(items.names), items.group, Side.of(holds)
    joint, within, begin = [], [], 0
    for item in range(n if max_antecedent > 1 else 0):
        others = np.flatnonzero(group[item + 1 :] != group[item]) + item + 1
        at, begin = slice(begin, begin + len(others)), begin + len(others)
        here = holds[:, item]
        if here.any():
            joint.append((at, Overlap.of_sides(Side.of(holds[:, others] & here[:, None]), whole)))
            own = Side.of(holds[here])
            within.append((slice(item * n, (item + 1) * n), Overlap.of_sides(own, own)))
    return RunOverlaps(len(holds), Overlap.of_sides(whole, whole), joint, within)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Rules to be tested, as arrays of one entry a rule.

    Attributes
    ----------
    left : ndarray of int, rules x 2
        The items on the left; the second is -1 where there is one.
    right : ndarray of int
    both, count_left, count_right, expected : ndarray
        Windows that hold both sides, either side, and as many as are expected to hold both.
    present, informative, agreeing, z, z_without : ndarray
        See `Overlap`.
    holds_up : ndarray of bool
        All but the probability speaks for the rule.
    least_chance : ndarray
        What it must be tested by beside its own probability: whether each of two items adds to the other.
    """

    left: Ints
    right: Ints
    both: Array
    count_left: Array
    count_right: Array
    expected: Array
    present: Array
    informative: Array
    agreeing: Array
    z: Array
    z_without: Array
    holds_up: Mask
    least_chance: Array


def association_rules(
    tally: Tally, runs: Sequence[Held], scope: str, settings: MiningSettings, recipe: Recipe
) -> pl.DataFrame:
    """The rules of a scope that hold up.

    Parameters
    ----------
    tally : Tally
        Of the scope's runs.
    runs : sequence of Held
        The same runs, each with the tally's items.
    scope : str
        Written into the column `scope`.
    settings : MiningSettings
        `min_support`, `min_gain`, `min_runs`, `max_rules`, `random_state`.
    recipe : Recipe
        Subsystems and words of the metric groups; the subsystem of one that it lacks is `Other`.

    Returns
    -------
    polars.DataFrame
        Table `association_rules`: those that are shown, and of the others those with the largest z; the largest first.

    Notes
    -----
    Tested are all rules with one item on the right, one or two on the left, of different groups, each side of which at
    least `min_support` of the windows hold: whether a side is common does not depend on what it goes with, so that
    the choice favours no rule. The correction (Benjamini and Hochberg, 1995) is over all of them. What fails by its
    size, its runs or its parts gets probability 1, which only makes the correction stricter.

    A second item must add to the first, and the first to the second, by the same test within the windows that hold
    the other (productive rules; Webb and Vreeken, TKDD 2014).
    """
    parts = list(_candidates(tally, settings))
    tested = sum(len(part.right) for part in parts)
    chances = [_chances(part, runs) for part in parts]
    if not tested:
        return ASSOCIATION_RULES.empty()
    q = false_discovery_control(np.concatenate(chances))
    frames, begin = [], 0
    for part, p in zip(parts, chances, strict=True):
        own, begin = q[begin : begin + len(p)], begin + len(p)
        kept = np.flatnonzero(part.holds_up & (own < SIGNIFICANT))
        frames.append(_table(part, kept, p, own, tally))
    found = pl.concat(frames).with_columns(scope=pl.lit(scope), tested=pl.lit(tested))
    return _described(found, tally.items, runs, settings, recipe)


def to_be_tested(both: Array, windows: int, items: Items, settings: MiningSettings) -> int:
    """How many rules a scope tests.

    Parameters
    ----------
    both : ndarray, items x items
        Windows that hold both items.
    windows : int
        All windows of the scope.
    items : Items
        The items.
    settings : MiningSettings
        `min_support`, `max_antecedent`.
    """
    return sum(len(right) for _, right in _sides_to_be_tested(both, windows, items, settings))


def _sides_to_be_tested(
    both: Array, windows: int, items: Items, settings: MiningSettings
) -> Iterator[tuple[Ints, Ints]]:
    """Left and right sides of rules with one item on the left, as row of `both`; then with two, as row of the pairs."""
    if not windows:
        return
    group = items.group
    common = np.diag(both) / windows >= settings.min_support
    yield _where(common[:, None] & common[None, :] & (group[:, None] != group[None, :]))
    if settings.max_antecedent > 1:
        first, second = pairs_of(items).T
        fits = (both[first, second] / windows >= settings.min_support)[:, None] & common[None, :]
        yield _where(fits & (group[first][:, None] != group) & (group[second][:, None] != group))


def _where(mask: Mask) -> tuple[Ints, Ints]:
    row, column = np.nonzero(mask)
    return row.astype(np.int64), column.astype(np.int64)


def _candidates(tally: Tally, settings: MiningSettings) -> Iterator[_Candidates]:
    """Rules with one item on the left, and those with two."""
    single, sides = tally.single, list(_sides_to_be_tested(tally.single.both, tally.windows, tally.items, settings))
    count = np.diag(single.both)
    if sides:
        left, right = sides[0]
        alone = np.stack([left, np.full_like(left, -1)], axis=1)
        yield _of(single, (left, right), alone, tally, settings)
    if len(sides) > 1:
        row, right = sides[1]
        pairs = pairs_of(tally.items)[row]
        first, second = pairs.T
        found = _of(tally.joint, (row, right), pairs, tally, settings)
        least = np.maximum(single.both[first, right] / count[first], single.both[second, right] / count[second])
        n = len(count)
        adds = np.minimum(tally.within.z[first * n + second, right], tally.within.z[second * n + first, right])
        chance = normal_chance(adds)
        productive = (found.both / found.count_left >= least + settings.min_gain) & (chance < SIGNIFICANT)
        yield replace(found, holds_up=found.holds_up & productive, least_chance=chance)


def _of(overlap: Overlap, at: tuple[Ints, Ints], left: Ints, tally: Tally, settings: MiningSettings) -> _Candidates:
    """Rules of these entries of overlaps, antecedents x items; their left sides are rules x 2."""
    count = np.diag(tally.single.both)
    second = np.where(left[:, 1] < 0, left[:, 0], left[:, 1])
    count_left = tally.single.both[left[:, 0], second]
    both, expected, informative = overlap.both[at], overlap.expected[at], overlap.informative[at]
    z, z_without = overlap.z[at], overlap.z_without_strongest[at]
    holds_up = (
        (both / tally.windows >= settings.min_support)
        & ((both - expected) / count_left >= settings.min_gain)
        & (informative >= settings.min_runs)
        & (overlap.agreeing[at] >= _AGREEING * informative)
        & (normal_chance(z_without) < SIGNIFICANT)
    )
    return _Candidates(
        left=left,
        right=at[1],
        both=both,
        count_left=count_left,
        count_right=count[at[1]],
        expected=expected,
        present=overlap.present[at],
        informative=informative,
        agreeing=overlap.agreeing[at],
        z=z,
        z_without=z_without,
        holds_up=holds_up,
        least_chance=np.zeros(len(left)),
    )


def _chances(rules: _Candidates, runs: Sequence[Held]) -> Array:
    """Probability of each rule; 1 for those that fail otherwise."""
    chances = np.ones(len(rules.right))
    rows = np.flatnonzero(rules.holds_up)
    step = max(1, _AT_ONCE // max(sum(len(run.holds) for run in runs), 1))
    for begin in range(0, len(rows), step):
        chunk = rows[begin : begin + step]
        shifted = [by_shift(_left(run.holds, rules.left[chunk]), run.holds[:, rules.right[chunk]]) for run in runs]
        chances[chunk] = [
            chance_of_as_much(round(observed), of_runs)
            for observed, of_runs in zip(rules.both[chunk], zip(*shifted, strict=True), strict=True)
        ]
    return np.maximum(chances, rules.least_chance)


def _left(holds: Mask, left: Ints) -> Mask:
    """Windows that hold all items on the left of each rule: windows x rules."""
    return np.asarray(holds[:, left[:, 0]] & (holds[:, left[:, 1]] | (left[:, 1] < 0)))


def _table(rules: _Candidates, kept: Ints, p: Array, q: Array, tally: Tally) -> pl.DataFrame:
    both, left, right = (part[kept] for part in (rules.both, rules.count_left, rules.count_right))
    confidence, share_right = both / left, right / tally.windows
    with np.errstate(divide="ignore"):
        conviction = np.where(both == left, np.inf, (1 - share_right) / (1 - confidence))
    return pl.DataFrame(
        {
            "first": rules.left[kept, 0],
            "second": rules.left[kept, 1],
            "right": rules.right[kept],
            "support": both / tally.windows,
            "confidence": confidence,
            "expected": rules.expected[kept] / left,
            "lift": confidence / share_right,
            "excess_windows": both - rules.expected[kept],
            "leverage": both / tally.windows - left / tally.windows * share_right,
            "conviction": conviction,
            "runs": rules.present[kept],
            "informative_runs": rules.informative[kept],
            "agreeing_runs": rules.agreeing[kept],
            "z": rules.z[kept],
            "z_without_strongest": rules.z_without[kept],
            "p_value": p[kept],
            "q_value": q[kept],
        }
    )


def _described(
    found: pl.DataFrame, items: Items, runs: Sequence[Held], settings: MiningSettings, recipe: Recipe
) -> pl.DataFrame:
    """Rules with the names of their items, their timing, examples, and words."""
    subsystem_of = recipe.subsystem_of
    left, right = found.select("first", "second").to_numpy(), found["right"].to_numpy()
    sides = [[items.names[i] for i in row if i >= 0] for row in left.tolist()]
    subsystems = [{subsystem_of.get(items.groups[i], "Other") for i in row if i >= 0} for row in left.tolist()]
    of_right = [subsystem_of.get(items.groups[i], "Other") for i in right.tolist()]
    named = found.with_columns(
        antecedent=pl.Series(sides, dtype=pl.List(pl.String)),
        consequent=pl.Series([[items.names[i]] for i in right.tolist()], dtype=pl.List(pl.String)),
        cross_subsystem=pl.Series(
            [own not in others for own, others in zip(of_right, subsystems, strict=True)], dtype=pl.Boolean
        ),
        timing=pl.Series(timings(_sides(left, right, runs), runs, settings), dtype=pl.String),
        examples=pl.Series(list(_examples(left, right, runs)), dtype=EXAMPLES),
    )
    order = ["z", pl.col("antecedent").list.join(" "), pl.col("consequent").list.join(" ")]
    ranked = named.sort(order, descending=[True, False, False]).with_row_index("number")
    told = in_words(ranked, ASSOCIATION_RULES, _told(ranked), lambda row: rule_sentence(row, recipe))
    kept = told.sort(pl.col("shown").is_null(), "number").head(settings.max_rules).sort("number")
    return kept.select(ASSOCIATION_RULES.schema.names())


def _told(rules: pl.DataFrame) -> list[int]:
    """Which rules of a scope are told, by their `number`, the first first.

    Those at times of a run's own, then those in the course of the job; where there are neither, those of which
    that is not known.
    """
    chosen = [worth_reading(rules, _TOLD, [timing])["number"] for timing in (OWN, COURSE)]
    if not any(map(len, chosen)):
        chosen = [worth_reading(rules, _TOLD)["number"]]
    return pl.concat(chosen).to_list()


def _sides(left: Ints, right: Ints, runs: Sequence[Held]) -> Iterator[list[tuple[Mask, Mask]]]:
    """For each rule, its two sides in every run."""
    for at in range(len(right)):
        yield [(_left(run.holds, left[at : at + 1])[:, 0], run.holds[:, right[at]]) for run in runs]


def _examples(left: Ints, right: Ints, runs: Sequence[Held]) -> Iterator[list[dict[str, object]]]:
    """For each rule, the runs that have most of it beyond the expected, and where both sides hold longest in them."""
    for sides in _sides(left, right, runs):
        excess = np.array([(a & c).sum() - a.sum() * c.sum() / max(len(a), 1) for a, c in sides])
        found: dict[str, dict[str, object]] = {}
        for number in np.argsort(-excess, kind="stable"):
            a, c = sides[number]
            run = runs[number]
            if len(found) == _EXAMPLES or not (a & c).any():
                break
            if run.run_key not in found:
                at = _longest(a & c)
                found[run.run_key] = {
                    "run_key": run.run_key,
                    "host": run.host,
                    "window": int(run.window[at]),
                    "start_ts": run.start[at],
                }
        yield list(found.values())


def _longest(holds: Mask) -> int:
    """Where the longest stretch begins."""
    edges = np.flatnonzero(np.diff(holds.astype(np.int8), prepend=0, append=0))
    begins, ends = edges[::2], edges[1::2]
    return int(begins[np.argmax(ends - begins)]) if len(begins) else 0


def worth_reading(rules: pl.DataFrame, limit: int, timing: Iterable[str] | None = None) -> pl.DataFrame:
    """Choose the few rules that a person should read first.

    Parameters
    ----------
    rules : polars.DataFrame
        Table `association_rules`, one scope or several.
    limit : int
        Most rules returned, per scope.
    timing : iterable of str, optional
        Only rules of these.

    Returns
    -------
    polars.DataFrame
        The same columns: rules across subsystems (that the GPU's power follows its load is not news) of what is high or
        low, those with one item on the left before those with two, by how sure and how large the gain is (z times
        gain). A pair of metric groups on opposite sides is shown once, and what follows at most twice, so that mirror
        images and variations of one rule do not crowd out the rest.
    """
    said = rules.filter(
        "cross_subsystem",
        ~pl.concat_list("antecedent", "consequent").list.eval(pl.element().str.ends_with(f"_{MEDIUM}")).list.any(),
    )
    if timing is not None:
        said = said.filter(pl.col("timing").is_in(list(timing)))
    gain = pl.col("confidence") - pl.col("expected")
    said = said.sort("scope", pl.col("antecedent").list.len(), -pl.col("z") * gain, maintain_order=True).with_row_index(
        "place"
    )
    chosen = [
        row["place"]
        for scope in said.partition_by("scope", maintain_order=True)
        for row in few(
            scope.iter_rows(named=True),
            limit,
            says=lambda row: [frozenset((group_of(i), group_of(row["consequent"][0]))) for i in row["antecedent"]],
            about=lambda row: row["consequent"][0],
        )
    ]
    return said.drop("place")[chosen]
