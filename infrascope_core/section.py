"""What a section of the settings is, and what is wrong with one that a file holds, in words.

The sections themselves stand in the `settings.py` of their stages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

_LONGEST = 60
"""Most characters of a wrong value that a message repeats."""
_NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", Path: "a path"}
_PLURALS = {int: "whole numbers", float: "numbers", bool: "true or false", str: "strings", Path: "paths"}
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


class Section(BaseModel):
    """A section of the settings: frozen, so that it can be hashed into a fingerprint, and strict about names.

    The text under a field is its description: what it means, with its unit, and where the default comes from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def digest(self) -> str:
        """Short stable hash of all values, for fingerprints."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def fault_in_words(model: type[BaseModel], error: ValidationError) -> str:
    """The first fault that a validation found: where, what was expected, and what was found.

    Parameters
    ----------
    model : type of BaseModel
        What was validated.
    error : ValidationError
        What validating it raised.

    Returns
    -------
    str
        Such as `windows.samples: expected a whole number of at least 1, found 0`.
    """
    fault = error.errors(include_url=False)[0]
    place = fault["loc"]
    where = ".".join(map(str, place)) or "the file"
    if fault["type"] in ("extra_forbidden", "invalid_key"):
        return f"{where}: {_unknown(str(place[-1]), _siblings(model, place))}"
    if fault["type"] == "value_error":
        return f"{where}: {fault['ctx']['error']}"
    expected = _expected(*_declared(model, place))
    found = "nothing" if fault["type"] == "missing" else _shown(fault["input"])
    return f"{where}: expected {expected}, found {found}"


def yaml_fault_in_words(error: Exception) -> str:
    """What is wrong with a text that is no YAML: where, and what; on one line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or not problem:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return f"line {mark.line + 1}: {problem}"


def _unknown(name: str, known: Sequence[str]) -> str:
    like = get_close_matches(name, known, n=1)
    return f"unknown; did you mean {like[0]}?" if like else f"unknown; expected one of {', '.join(known)}"


def _siblings(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    parent, _ = _declared(model, place[:-1])
    return list(parent.model_fields)


def _declared(model: type[BaseModel], place: Sequence[int | str]) -> tuple[Any, Sequence[Any]]:
    """Type and constraints at a place of a model."""
    kind: Any = model
    constraints: Sequence[Any] = ()
    for step in place:
        if isinstance(step, int):
            parts = get_args(kind)
            kind, constraints = parts[0] if parts[-1] is Ellipsis else parts[min(step, len(parts) - 1)], ()
        elif get_origin(kind) is dict:
            kind, constraints = get_args(kind)[1], ()
        else:
            field = kind.model_fields[step]
            kind, constraints = field.annotation, field.metadata
    return kind, constraints


def _expected(kind: Any, constraints: Sequence[Any]) -> str:
    """A type with its constraints, as a noun."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in (Union, UnionType):
        return " or ".join("nothing" if part is type(None) else _expected(part, constraints) for part in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        number = "" if parts[-1] is Ellipsis else f"{len(parts)} "
        list_ = "a non-empty list" if any(hasattr(c, "min_length") for c in constraints) else "a list"
        return f"{list_} of {number}{_PLURALS.get(parts[0], 'mappings')}"
    noun = _NOUNS.get(kind, "a mapping of names to values")
    bounds = [*_bounds(constraints)]
    return f"{noun} {' and '.join(bounds)}" if bounds else noun


def _bounds(constraints: Sequence[Any]) -> Iterator[str]:
    for name, words in _BOUNDS.items():
        for constraint in constraints:
            if (limit := getattr(constraint, name, None)) is not None:
                yield f"{words} {limit:g}"
    for constraint in constraints:
        if (pattern := getattr(constraint, "pattern", None)) is not None:
            yield f"that matches {pattern}"


def _shown(value: Any) -> str:
    """A value as its file spells it, or nearly so."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list) and any(isinstance(part, (list, dict)) for part in value):
        return "a list of lists or mappings"  # a few letters of YAML can stand for more than can be written
    try:
        text = repr(value) if isinstance(value, (str, int, float, list)) else str(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number that is too long"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
