"""One batch of run files in one step: each key by itself, good ones kept, bad ones failed, none forgotten."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_dagster.progress import tell

Metadata = Mapping[str, Any]


def each_key(
    context: dg.AssetExecutionContext, table: str, work: Callable[[str], None]
) -> tuple[list[str], dict[str, str]]:
    """Call `work` for every partition key of the step.

    Returns
    -------
    tuple
        Keys that went well, and the reason by key for those that did not.
    """
    keys = context.partition_keys
    good, bad = [], {}
    tell(table, 0, len(keys))
    for done, key in enumerate(keys, start=1):
        try:
            work(key)
        except InfraScopeError as error:
            bad[key] = str(error)
        except Exception as error:
            context.log.exception(f"{table} of {key}")
            bad[key] = f"unexpected {type(error).__name__}: {error}"
        else:
            good.append(key)
        tell(table, done, len(keys))
    return good, bad


def fail_the_bad(
    context: dg.AssetExecutionContext,
    assets: Sequence[str],
    good: Sequence[str],
    bad: Mapping[str, str],
    metadata: Metadata,
) -> None:
    """If a key went wrong, record the good ones as materialized and fail the step for the others.

    Raises
    ------
    dagster.Failure
        There are bad keys. The step is not retried: a bad file stays bad until somebody replaces it.
    """
    if not bad:
        return
    for key in good:
        for asset in assets:
            context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=metadata))
    raise dg.Failure(
        description="; ".join(f"{key}: {reason}" for key, reason in bad.items()),
        metadata={"bad": len(bad), "good": len(good)},
        allow_retries=False,
    )
