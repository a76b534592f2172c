"""One batch of run files in one step: each key by itself, good ones kept, bad ones failed, none forgotten."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_dagster.adoption import Event

MetadataByAsset = Mapping[str, Mapping[str, Any]]


def each_key(
    context: dg.AssetExecutionContext, keys: Iterable[str], work: Callable[[str], MetadataByAsset]
) -> tuple[dict[str, MetadataByAsset], dict[str, str]]:
    """Call `work` for each of the partition keys of a step.

    Returns
    -------
    tuple
        What `work` returned by key that went well, and the reason by key for those that did not.
    """
    good: dict[str, MetadataByAsset] = {}
    bad: dict[str, str] = {}
    for key in keys:
        try:
            good[key] = work(key)
        except InfraScopeError as error:
            bad[key] = str(error)
        except Exception as error:
            context.log.exception(key)
            bad[key] = f"unexpected {type(error).__name__}: {error}"
    return good, bad


def record(
    context: dg.AssetExecutionContext,
    good: Mapping[str, MetadataByAsset],
    bad: Mapping[str, str],
    *,
    tags: Mapping[str, str],
    why: Callable[[str, str], Iterable[Event]],
    bad_later: Mapping[str, str],
) -> None:
    """Give each partition its own metadata; if a key went wrong, record the good ones and fail the step.

    Parameters
    ----------
    context : dagster.AssetExecutionContext
        Of the step.
    good, bad : mapping
        As `each_key` returns them.
    tags : mapping of str to str
        Tags of a materialization that is recorded by hand.
    why : callable
        Gives the events of a bad key, from the key and the reason.
    bad_later : mapping
        Keys that went wrong in a later product.

    Raises
    ------
    dagster.Failure
        There are bad keys. The step is not retried: a bad file stays bad until somebody replaces it.
    """
    for key, of_asset in good.items():
        for asset, metadata in of_asset.items():
            if bad:
                context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=metadata, tags=tags))
            else:
                context.add_asset_metadata(metadata, asset_key=asset, partition_key=key)
    for key, reason in bad.items():
        for event in why(key, reason):
            context.log_event(event)
    if bad:
        raise dg.Failure(
            description="; ".join(f"{key}: {reason}" for key, reason in (*bad.items(), *bad_later.items())),
            metadata={"bad": len(bad), "good": len(good)},
            allow_retries=False,
        )
