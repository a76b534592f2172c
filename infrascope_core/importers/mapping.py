"""Mappings: which series of a source is which column of a run file, of which type and unit.

What belongs here: the model that checks mapping files (`mappings/*.yaml` and a site's own), and the look-up. What a
name means is in the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.samples import Series
from infrascope_core.run_files.metric_types import MetricType
from infrascope_core.section import fault_in_words, yaml_fault_in_words

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_COLUMN = re.compile(r"(?:[A-Za-z][\w-]*:)?[^\[\]\t\r\n]+\[[^\[\]\t\r\n]*\]")
_UNSAFE = re.compile(r"[^\w.@:%+/()-]", re.ASCII)
"""Characters of a label's value that no column's name may have; among them tabs, line ends, quotes and brackets."""
_NAMED_GROUP = re.compile(r"\(\?P<\w+>")
_LONGEST_PART = 64
"""Most characters of a label's value in a column's name."""
_MAX_BYTES = 2**20
_MOST_RULES = 10_000


class Strict(BaseModel):
    """What is read from a file: frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} is not a valid regular expression ({error})") from None
    return pattern


class JobLabel(Strict):
    """Where a series says which job it is about."""

    label: str
    pattern: str = "(.+)"
    """Its first group is the job's number; a series that it does not match is about no job."""

    _pattern = field_validator("pattern")(_compiled)


class Rule(Strict):
    """Series of some names, and the columns that they become."""

    source: str
    """Regular expression of the whole name; its named groups can be used in `column`."""
    where: dict[str, str] = {}
    """Regular expressions of whole label values; a series without the label does not fit."""
    column: tuple[str, ...] = ()
    """`Source:metric.instance[unit]`, or several; `{name}` is a label or a named group. None: series are left out."""
    type: MetricType | None = None
    """counter, gauge or state; None leaves it to names and behaviour."""
    scale: float = Field(1.0, gt=0)
    """What values are multiplied by, so that they are in the column's unit."""
    combine: Literal["sum", "max"] | None = None
    """How several series of one target become one column; without it, one of them is taken."""
    job: JobLabel | None = None
    """Which label says that a series is about one job: it is then left out of the runs of others."""

    _source = field_validator("source")(_compiled)

    @field_validator("where")
    @classmethod
    def _patterns(cls, where: dict[str, str]) -> dict[str, str]:
        return {name: _compiled(pattern) for name, pattern in where.items()}

    @field_validator("column", mode="before")
    @classmethod
    def _one_or_more(cls, column: object) -> object:
        return (column,) if isinstance(column, str) else column

    @field_validator("column")
    @classmethod
    def _grammar(cls, column: tuple[str, ...]) -> tuple[str, ...]:
        for each in column:
            if not _COLUMN.fullmatch(_PLACEHOLDER.sub("x", each)):
                raise ValueError(f"expected a column as Source:metric.instance[unit], found {each!r}")
        return column


class TableShape(Strict):
    """How a table of somebody else's holds samples."""

    layout: Literal["long", "wide"]
    """long: a row is one value, and a column says of which metric; wide: a column is a metric."""
    time: str
    """The column with the time ..."""
    time_format: str = "iso"
    """... as `iso`, as seconds, milliseconds, microseconds or nanoseconds since 1970 (`s`, `ms`, `us`, `ns`), or as
    strptime describes it (`%d/%m/%Y %H:%M`)."""
    host: str | None = None
    """The column with the host; without one, `--host` names it."""
    labels: tuple[str, ...] = ()
    """Columns that tell series apart, such as the GPU; rules can use them."""
    name: str | None = None
    """Of a long table: the column with the metric's name ..."""
    value: str | None = None
    """... and the column with its value."""
    separator: str = Field(",", min_length=1, max_length=1)
    """What is between the fields of a CSV file."""
    decimal: Literal[".", ","] = "."
    """What is before the decimals of its numbers."""

    @model_validator(mode="after")
    def _long_is_whole(self) -> Self:
        if self.layout == "long" and not (self.name and self.value):
            raise ValueError("a long table has a column with names and one with values; say name and value")
        return self


class Mapping(Strict):
    """A mapping file."""

    about: str = ""
    """What it maps, and against which version its names were checked."""
    host: tuple[str, ...] = ()
    """Labels that may name the host: the first that a series has. None: those of the mappings beside it."""
    table: TableShape | None = None
    """How to read a table; only `infrascope import table` asks."""
    rules: tuple[Rule, ...] = Field(min_length=1, max_length=_MOST_RULES)
    """A series follows the first rule that fits."""

    def fitting(self, series: Series) -> tuple[int, dict[str, str]] | None:
        """Place of the rule that a series follows, and what its column may name; None if there is none."""
        labels = series.label
        for place, groups in self._by_name(series.name):
            if all(label in labels and pattern.fullmatch(labels[label]) for label, pattern in self._where[place]):
                return place, labels | groups
        return None

    def host_of(self, series: Series) -> str | None:
        """The first label that names the host, as it stands; None if there is none."""
        return next((value for label in self.host if (value := series.label.get(label))), None)

    def _by_name(self, name: str) -> list[tuple[int, dict[str, str]]]:
        """Rules whose pattern fits a name, by place, with what their groups found; remembered, as names repeat."""
        if name not in self._remembered:
            found = ((place, pattern.fullmatch(name)) for place, pattern in enumerate(self._sources))
            self._remembered[name] = [
                (place, {key: text for key, text in match.groupdict().items() if text is not None})
                for place, match in found
                if match
            ]
        return self._remembered[name]

    @cached_property
    def _remembered(self) -> dict[str, list[tuple[int, dict[str, str]]]]:
        return {}

    @cached_property
    def _sources(self) -> list[re.Pattern[str]]:
        return [re.compile(rule.source) for rule in self.rules]

    @cached_property
    def _where(self) -> list[list[tuple[str, re.Pattern[str]]]]:
        return [[(label, re.compile(pattern)) for label, pattern in rule.where.items()] for rule in self.rules]


@dataclass(frozen=True)
class Target:
    """What a series becomes: part of a column, or all of it."""

    series: int
    metric: str
    rule: Rule
    rank: int
    """Place of the mapping and of its rule, which orders the columns of a run file."""


def load_mapping(name_or_path: str) -> Mapping:
    """A mapping of this package by name, or a YAML file by path.

    Raises
    ------
    ImportSourceError
        No such mapping, or the file breaks the schema; names the field.
    """
    known = known_mappings()
    source = _own() / f"{name_or_path}.yaml" if name_or_path in known else Path(name_or_path)
    if not source.is_file():
        raise ImportSourceError(f"{name_or_path}: no such mapping; expected {', '.join(known)}, or a YAML file")
    try:
        text = source.read_text(encoding="utf-8")
        if len(text) > _MAX_BYTES:
            raise ImportSourceError(f"{name_or_path}: larger than {_MAX_BYTES:,} characters, the limit of a mapping")
        return Mapping.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise ImportSourceError(f"{name_or_path}: {fault_in_words(Mapping, error)}") from None
    except OSError as error:
        raise ImportSourceError(f"{name_or_path}: cannot be read ({error.strerror or error})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ImportSourceError(f"{name_or_path}: cannot be read as YAML ({yaml_fault_in_words(error)})") from None


def known_mappings() -> list[str]:
    """Names of the mappings of this package, sorted."""
    return sorted(file.name.removesuffix(".yaml") for file in _own().iterdir() if file.name.endswith(".yaml"))


def _own() -> Traversable:
    return resources.files(__package__) / "mappings"


def targets(series: Sequence[Series], mappings: Sequence[Mapping], job: str | None = None) -> list[Target]:
    """The columns that series become.

    Parameters
    ----------
    series : sequence of Series
        In any order.
    mappings : sequence of Mapping
        A series follows the first of them that has a rule for it.
    job : str, optional
        The job that the run is of: series that are about another one are left out.

    Returns
    -------
    list of Target
        By series; one that no rule fits has none, one may have several.
    """
    found = []
    for place, one in enumerate(series):
        for number, mapping in enumerate(mappings):
            if fit := mapping.fitting(one):
                order, names = fit
                rule = mapping.rules[order]
                if _is_about(one, rule, job):
                    rank = number * _MOST_RULES + order
                    columns = (_filled(column, names) for column in rule.column)
                    found += [Target(place, column, rule, rank) for column in columns if column is not None]
                break
    return found


def unmapped(series: Iterable[Series], mappings: Sequence[Mapping]) -> list[str]:
    """Names of series that no rule fits, sorted."""
    return sorted({one.name for one in series if not any(mapping.fitting(one) for mapping in mappings)})


def lacking(series: Iterable[Series], mappings: Sequence[Mapping]) -> list[str]:
    """Sentences about series that lack a label which their column names, and so become none: one a rule."""
    found: dict[tuple[int, int], str] = {}
    for one in series:
        fits = ((number, fit) for number, mapping in enumerate(mappings) if (fit := mapping.fitting(one)))
        for number, (order, names) in islice(fits, 1):
            columns = mappings[number].rules[order].column
            if columns and not any(_filled(column, names) for column in columns):
                missing = next(name for name in _PLACEHOLDER.findall(columns[0]) if not names.get(name))
                sentence = f"{one.name} lacks the label {missing} that its column names, and was left out"
                found.setdefault((number, order), sentence)
    return [*found.values()]


def source_patterns(mappings: Sequence[Mapping]) -> list[str]:
    """Regular expressions (RE2) for the names of all series that a mapping wants."""
    wanted = dict.fromkeys(rule.source for mapping in mappings for rule in mapping.rules if rule.column)
    # RE2 refuses two groups of one name
    return [_NAMED_GROUP.sub("(?:", source) for source in wanted]


def job_of(series: Series, label: JobLabel) -> str | None:
    """The job that a series is about; None if it is about none."""
    match = re.search(label.pattern, series.label.get(label.label, ""))
    return match[1] if match and match.groups() else match[0] if match else None


def _is_about(series: Series, rule: Rule, job: str | None) -> bool:
    if rule.job is None:
        return True
    about = job_of(series, rule.job)
    return about is not None and job in (None, about)


def _filled(column: str, names: dict[str, str]) -> str | None:
    """A column's name; None where a label that it names is not there."""
    wanted = _PLACEHOLDER.findall(column)
    if not all(names.get(name) for name in wanted):
        return None
    return _PLACEHOLDER.sub(lambda match: _UNSAFE.sub("_", names[match[1]])[:_LONGEST_PART], column)
