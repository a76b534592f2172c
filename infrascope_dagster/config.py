"""The settings as Dagster config: the same sections, fields, defaults and descriptions, made from the models.

Dagster's config knows no tuples and no literals: they become lists and enumerations.
"""

import types
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from infrascope_core.section import Section
from infrascope_core.settings import Settings


def _config_of(model: type[Section]) -> type[dg.Config]:
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            section = _config_of(kind)
            fields[name] = (section, Field(default_factory=section, description=(kind.__doc__ or "").strip()))
        else:
            dagster_kind = _kind(name, kind)
            fields[name] = (dagster_kind, Field(_default(info, dagster_kind), description=info.description))
    made: type[dg.Config] = create_model(f"{model.__name__}Config", __base__=dg.Config, __doc__=model.__doc__, **fields)
    return made


def _kind(name: str, kind: Any) -> Any:
    """What Dagster has for a field's type."""
    origin = get_origin(kind)
    if origin is Literal:
        return Enum(name, {str(value): value for value in get_args(kind)}, type=str)
    if origin is tuple:
        item = get_args(kind)[0]
        if isinstance(item, type) and issubclass(item, Section):
            item = _config_of(item)
        return list[item]  # type: ignore[valid-type]
    if origin in (Union, types.UnionType) or kind in (bool, int, float, str):
        return kind
    raise TypeError(f"the setting {name} has a type that Dagster's config cannot express: {kind}")


def _default(info: FieldInfo, kind: Any) -> Any:
    if isinstance(info.default, tuple):
        return list(info.default)
    return kind(info.default) if isinstance(kind, type) and issubclass(kind, Enum) else info.default


SettingsConfig = _config_of(Settings)
"""All settings, as config of the resource."""


def settings_of(config: BaseModel) -> Settings:
    """The settings that a config holds.

    Raises
    ------
    pydantic.ValidationError
        A value is out of its range.
    """
    return Settings.model_validate_json(config.model_dump_json())


def config_of(settings: Settings) -> Any:
    """The config that holds these settings."""
    return SettingsConfig.model_validate_json(settings.model_dump_json())
