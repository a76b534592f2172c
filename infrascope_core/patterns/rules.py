"""Association rules: while some items hold, another does, more often than the same runs would have it by chance.

What belongs here: which of the candidates hold up, and their measures (Agrawal, Imielinski and Swami, SIGMOD 1993).
What is tested is in `candidates`, the test in `co_occurrence`; whether a rule has times of its own in `timing`; its
words in `sentences`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from scipy.stats import false_discovery_control

from infrascope_core.numeric import Array, Ints, Mask
from infrascope_core.patterns.candidates import AT_ONCE, SIGNIFICANT, Candidates, candidates, left_side
from infrascope_core.patterns.co_occurrence import by_shift, chance_of_as_much
from infrascope_core.patterns.held import MEDIUM, Held, Items, group_of
from infrascope_core.patterns.sentences import rule_sentence
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tables import ASSOCIATION_RULES, EXAMPLES
from infrascope_core.patterns.tallies import Tally
from infrascope_core.patterns.telling import Row, few, in_words
from infrascope_core.patterns.timing import COURSE, OWN, UNDECIDED, UNKNOWN, timings
from infrascope_core.recipes import Recipe

_TOLD = 5
"""Most rules that are shown of a timing."""
_EXAMPLES = 3
"""Most examples of a rule, each of another run."""


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
    Tested are all rules with one item on the right, up to `max_antecedent` on the left, of different groups, each side
    of which at least `min_support` of the windows hold: whether a side is common does not depend on what it goes with,
    so that the choice favours no rule. The correction (Benjamini and Hochberg, 1995) is over all of them. What fails by
    its size, its runs or its parts gets probability 1, which only makes the correction stricter.

    Each item on the left must add to the others, by the same test within the windows that hold those (productive
    rules; Webb and Vreeken, TKDD 2014).
    """
    parts = list(candidates(tally, runs, settings))
    tested = sum(part.tested for part in parts)
    if not tested:
        return ASSOCIATION_RULES.empty()
    chances = [_chances(part, runs) for part in parts]
    failed = np.ones(tested - sum(map(len, chances)))
    q = false_discovery_control(np.concatenate([*chances, failed]))
    frames, begin = [], 0
    for part, p in zip(parts, chances, strict=True):
        own, begin = q[begin : begin + len(p)], begin + len(p)
        kept = np.flatnonzero(part.holds_up & (own < SIGNIFICANT))
        frames.append(_table(part, kept, p, own, tally))
    found = pl.concat(frames).with_columns(scope=pl.lit(scope), tested=pl.lit(tested), holding=pl.len())
    return _described(found, tally.items, runs, settings, recipe)


def _chances(rules: Candidates, runs: Sequence[Held]) -> Array:
    """Probability of each rule; 1 for those that fail otherwise."""
    chances = np.ones(len(rules.right))
    rows = np.flatnonzero(rules.holds_up)
    step = max(1, AT_ONCE // max(sum(len(run.holds) for run in runs), 1))
    for begin in range(0, len(rows), step):
        chunk = rows[begin : begin + step]
        shifted = [by_shift(left_side(run.holds, rules.left[chunk]), run.holds, rules.right[chunk]) for run in runs]
        chances[chunk] = [
            chance_of_as_much(round(observed), of_runs)
            for observed, of_runs in zip(rules.both[chunk], zip(*shifted, strict=True), strict=True)
        ]
    return np.maximum(chances, rules.least_chance)


def _table(rules: Candidates, kept: Ints, p: Array, q: Array, tally: Tally) -> pl.DataFrame:
    both, left, right = (part[kept] for part in (rules.both, rules.count_left, rules.count_right))
    confidence, share_right = both / left, right / tally.windows
    with np.errstate(divide="ignore"):
        conviction = np.where(both == left, np.inf, (1 - share_right) / (1 - confidence))
    return pl.DataFrame(
        {
            "left": rules.left[kept],
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
    ranked = _may_be_stored(_named(found, items, recipe), settings)
    left, right = ranked["left"].to_numpy(), ranked["right"].to_numpy()
    labels = timings(left, right, runs, settings)
    labelled = ranked.with_columns(timing=pl.Series(labels, dtype=pl.String)).with_row_index("number")
    told = _told(labelled)
    others = [number for number in range(labelled.height) if number not in set(told)]
    stored = sorted([*told, *others][: settings.max_rules])
    kept = labelled[stored]
    examples = pl.Series(list(_examples(left[stored], right[stored], runs)), dtype=EXAMPLES)
    place = {number: row for row, number in enumerate(stored)}
    worded = in_words(
        kept.with_columns(examples=examples),
        ASSOCIATION_RULES,
        [place[number] for number in told if number in place],
        lambda row: rule_sentence(row, recipe),
    )
    return worded.select(ASSOCIATION_RULES.schema.names())


def _named(found: pl.DataFrame, items: Items, recipe: Recipe) -> pl.DataFrame:
    """Rules with the names of their items, the largest z first."""
    subsystem_of = recipe.subsystem_of
    left, right = found["left"].to_numpy().tolist(), found["right"].to_list()
    sides = [[items.names[i] for i in row if i >= 0] for row in left]
    subsystems = [{subsystem_of.get(items.groups[i], "Other") for i in row if i >= 0} for row in left]
    of_right = [subsystem_of.get(items.groups[i], "Other") for i in right]
    named = found.with_columns(
        antecedent=pl.Series(sides, dtype=pl.List(pl.String)),
        consequent=pl.Series([[items.names[i]] for i in right], dtype=pl.List(pl.String)),
        cross_subsystem=pl.Series(
            [own not in others for own, others in zip(of_right, subsystems, strict=True)], dtype=pl.Boolean
        ),
    )
    order = ["z", pl.col("antecedent").list.join(" "), pl.col("consequent").list.join(" ")]
    return named.sort(order, descending=[True, False, False])


def _may_be_stored(ranked: pl.DataFrame, settings: MiningSettings) -> pl.DataFrame:
    """Of more rules than are stored, those with the largest z, and a fifth as many of those that come first in reading.

    The others get no label: that takes most of the time of a rule.
    """
    if ranked.height <= settings.max_rules:
        return ranked
    numbered = ranked.with_row_index("number")
    first = [numbered.head(settings.max_rules), _worth_telling(numbered).head(settings.max_rules // 5)]
    return ranked[sorted({number for rules in first for number in rules["number"]})]


def _told(rules: pl.DataFrame) -> list[int]:
    """Which rules of a scope are told, by their `number`, the first first.

    Those at times of a run's own, then those in the course of the job; where there are neither, those of which
    that is not known. What may be the course of any workload (runs begin and end) is news to nobody.
    """
    own = worth_reading(rules, _TOLD, [OWN])
    said = {pair for row in own.iter_rows(named=True) for pair in _pairs(row)}
    others = rules.filter([not said.intersection(_pairs(row)) for row in rules.iter_rows(named=True)])
    told = [own, worth_reading(others, _TOLD, [COURSE])]
    if not any(map(len, told)):
        told = [worth_reading(rules, _TOLD, [UNDECIDED, UNKNOWN])]
    return [number for each in told for number in each["number"]]


def _pairs(rule: Row) -> Iterator[frozenset[str]]:
    """Metric groups on opposite sides, either way round."""
    for item in rule["antecedent"]:
        yield frozenset((group_of(item), group_of(rule["consequent"][0])))


def _examples(left: Ints, right: Ints, runs: Sequence[Held]) -> Iterator[list[dict[str, object]]]:
    """For each rule, the runs that have most of it beyond the expected, and where both sides hold longest in them."""
    excess, some = np.zeros((len(right), len(runs))), np.zeros((len(right), len(runs)), dtype=bool)
    for number, run in enumerate(runs):
        a, c = left_side(run.holds, left), run.holds[:, right]
        both = (a & c).sum(axis=0)
        excess[:, number] = both - a.sum(axis=0) * c.sum(axis=0) / max(len(a), 1)
        some[:, number] = both > 0
    for rule in range(len(right)):
        found: dict[str, dict[str, object]] = {}
        for number in np.argsort(-excess[rule], kind="stable"):
            run = runs[number]
            if len(found) == _EXAMPLES or not some[rule, number]:
                break
            if run.run_key not in found:
                at = _longest(left_side(run.holds, left[rule : rule + 1])[:, 0] & run.holds[:, right[rule]])
                found[run.run_key] = {
                    "run_key": run.run_key,
                    "host": run.host,
                    "window": int(run.window[at]),
                    "start_ts": run.start[at].item(),
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
    said = _worth_telling(rules)
    if timing is not None:
        said = said.filter(pl.col("timing").is_in(list(timing)))
    said = said.sort("scope", maintain_order=True).with_row_index("place")
    chosen = [
        row["place"]
        for scope in said.partition_by("scope", maintain_order=True)
        for row in few(
            scope.iter_rows(named=True),
            limit,
            says=_pairs,
            about=lambda row: row["consequent"][0],
        )
    ]
    return said.drop("place")[chosen]


def _worth_telling(rules: pl.DataFrame) -> pl.DataFrame:
    """Rules across subsystems of what is high or low: simple ones first, then by how sure and how large the gain is."""
    gain = pl.col("confidence") - pl.col("expected")
    return rules.filter(
        "cross_subsystem",
        ~pl.concat_list("antecedent", "consequent").list.eval(pl.element().str.ends_with(f"_{MEDIUM}")).list.any(),
    ).sort(pl.col("antecedent").list.len(), -pl.col("z") * gain, maintain_order=True)
