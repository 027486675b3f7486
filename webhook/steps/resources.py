"""resources: requests and limits of containers, each resource a feature of its own, and a limit of memory.

The request of memory of Spark's own container is Spark's (BasicDriverFeatureStep, BasicExecutorFeatureStep
work it out from the heap and its overhead). A limit of an extended resource, such as a GPU, is its request
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from webhook.changes import Change
from webhook.kinds import Json
from webhook.partial import of_container
from webhook.policy.containers import ResourcesItem
from webhook.resources import EnsureMemoryLimit
from webhook.steps.base import Step
from webhook.validity import can_be_overcommitted

_MEMORY_LIMIT = "memoryLimit"
_SHARED = ("onConflict", "containers")


def changes(item: ResourcesItem) -> Sequence[Change]:
    """The request and the limit of the one resource of the item."""
    if item.memoryLimit is not None:
        return [EnsureMemoryLimit(item.memoryLimit, item.containers)]
    requests, limits = dict(item.requests), dict(item.limits)
    for name, limit in limits.items():
        if not can_be_overcommitted(name):
            requests.setdefault(name, limit)
    return of_container({"resources": {"requests": requests, "limits": limits}}, item.containers)


def _items(value: ResourcesItem | None) -> Iterable[tuple[str, ResourcesItem]]:
    if value is None:
        return
    amounts = {"requests": value.requests, "limits": value.limits}
    for name in dict.fromkeys((*value.requests, *value.limits)):
        parts = {field: {name: of[name]} for field, of in amounts.items() if name in of}
        yield f".{next(iter(parts))}[{name}]", _part(value, parts)
    if value.memoryLimit is not None:
        yield f".{_MEMORY_LIMIT}", _part(value, {_MEMORY_LIMIT: value.memoryLimit})


def _part(value: ResourcesItem, stated: Json) -> ResourcesItem:
    shared = {key: getattr(value, key) for key in _SHARED if key in value.model_fields_set}
    return ResourcesItem.model_construct({*shared, *stated}, **shared, **stated)


def _resource(item: ResourcesItem) -> str:
    return next(iter((*item.requests, *item.limits)), _MEMORY_LIMIT)


STEP = Step(
    field="resources",
    changes=changes,
    identity=_resource,
    subject=lambda item: f"resources {_resource(item)}",
    items=_items,
)
