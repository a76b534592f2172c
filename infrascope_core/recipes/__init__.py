"""Metric groups as data: patterns, reducers, discretizers. Copy a YAML file, edit it, pass its path.

What belongs here: the recipe files and the model that checks them. What a group means is in the file.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Literal

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from infrascope_core.errors import RecipeError
from infrascope_core.run_files.columns import SUBSYSTEMS
from infrascope_core.section import fault_in_words, yaml_fault_in_words
from infrascope_core.store.folder import DataFolder

Reducer = Literal["median", "mean", "sum", "max"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricGroup(_Strict):
    """A named group: which columns, and how they become one value per window."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    unit: str
    subsystem: str
    patterns: tuple[str, ...] = Field(min_length=1)
    """Regular expressions, searched without regard to case; the first that finds a column decides."""
    over_samples: Reducer = "median"
    over_metrics: Reducer = "median"
    words: str = ""
    """What it is, in words that follow "while": `CPU system time`. By default its name."""
    plural: bool = False
    """Whether those words are plural."""
    same_as: str | None = None
    """Another group that says the same, where a host has both: patterns are mined without this one."""
    inverse: bool = False
    """It is low where `same_as` is high."""

    @field_validator("patterns")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"the pattern {pattern!r} is not a valid regular expression ({error})") from None
        return patterns

    @field_validator("subsystem")
    @classmethod
    def _known(cls, subsystem: str) -> str:
        if subsystem not in SUBSYSTEMS:
            raise ValueError(f"unknown subsystem {subsystem!r}; expected one of {', '.join(SUBSYSTEMS)}")
        return subsystem


class Recipe(_Strict):
    """A whole recipe.

    Attributes
    ----------
    names : str
        `column`: patterns and exclusions go by a column's full name, host included; `metric`: host-free.
    constancy : str
        `mean_cv`: mean over runs of std/mean; `pooled_cv`: std/|mean| of all samples of all runs together.
    near_constant : float
        A metric whose constancy figure is below it is excluded.
    method : str
        `terciles` or `mode_aware` (docs/design.md, Recipes).
    population : str
        What thresholds are fitted on: all raw `samples` of a group's columns, or its `windows`.
    quantiles : tuple of float
        Lower and upper quantile, linear interpolation.
    values : str
        What patterns are searched in and values taken from: `raw`, the file's columns as they are; or `reanalysed`,
        where cumulative counters are rates and derived metrics (`Derived:...`) are added.
    windows : str
        Windows are so many `samples` long, or so many `seconds` (settings `windows`).
    """

    name: str
    names: Literal["column", "metric"]
    constancy: Literal["mean_cv", "pooled_cv"]
    near_constant: float = Field(ge=0)
    method: Literal["terciles", "mode_aware"]
    population: Literal["samples", "windows"]
    quantiles: tuple[float, float]
    values: Literal["raw", "reanalysed"] = "raw"
    windows: Literal["samples", "seconds"] = "samples"
    groups: tuple[MetricGroup, ...] = Field(min_length=1)

    @field_validator("quantiles")
    @classmethod
    def _ordered(cls, quantiles: tuple[float, float]) -> tuple[float, float]:
        lower, upper = quantiles
        if not 0 < lower < upper < 1:
            raise ValueError(f"expected 0 < lower < upper < 1, found {lower} and {upper}")
        return quantiles

    @field_validator("groups")
    @classmethod
    def _distinct(cls, groups: tuple[MetricGroup, ...]) -> tuple[MetricGroup, ...]:
        names = [group.name.lower() for group in groups]
        if len(set(names)) < len(names):
            raise ValueError("two groups have the same name, upper and lower case apart")
        stands = {group.name: group.same_as for group in groups}
        for group in groups:
            if group.same_as is not None and (group.same_as not in stands or group.same_as == group.name):
                raise ValueError(f"{group.name} is said to be the same as {group.same_as!r}, which is no other group")
            if group.same_as is not None and stands[group.same_as] is not None:
                raise ValueError(
                    f"{group.name} is said to be the same as {group.same_as}, which itself is the same as another group"
                )
        return groups

    @property
    def subsystem_of(self) -> dict[str, str]:
        """Subsystem by group name."""
        return {group.name: group.subsystem for group in self.groups}

    @property
    def by_name(self) -> dict[str, MetricGroup]:
        """The groups by their names."""
        return {group.name: group for group in self.groups}


def recipe_of(folder: DataFolder) -> Recipe:
    """The recipe of a data folder's settings.

    Raises
    ------
    RecipeError
        See `load_recipe`.
    """
    return folder.once("recipe", lambda: load_recipe(folder.settings.recipe))


def load_recipe(name_or_path: str) -> Recipe:
    """A recipe of this package by name, or a YAML file by path.

    Raises
    ------
    RecipeError
        No such recipe, or the file breaks the recipe's schema; names the field.
    """
    own = resources.files(__package__)
    known = sorted(f.name.removesuffix(".yaml") for f in own.iterdir() if f.name.endswith(".recipe.yaml"))
    known = [name.removesuffix(".recipe") for name in known]
    source = own / f"{name_or_path}.recipe.yaml" if name_or_path in known else Path(name_or_path)
    if not source.is_file():
        raise RecipeError(f"{name_or_path}: no such recipe; expected {' or '.join(known)}, or a YAML file")
    try:
        return Recipe.model_validate(yaml.safe_load(source.read_text(encoding="utf-8")))
    except pydantic.ValidationError as error:
        raise RecipeError(f"{name_or_path}: {fault_in_words(Recipe, error)}") from None
    except OSError as error:
        raise RecipeError(f"{name_or_path}: cannot be read ({error.strerror or error})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RecipeError(f"{name_or_path}: cannot be read as YAML ({yaml_fault_in_words(error)})") from None
