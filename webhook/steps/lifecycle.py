"""lifecycle: hooks of containers, each a feature of its own."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change
from webhook.partial import of_container
from webhook.policy.containers import LifecycleItem
from webhook.steps.base import Step, split, split_key


def changes(item: LifecycleItem) -> Sequence[Change]:
    """The one hook of the item."""
    key = split_key(item)
    return of_container({"lifecycle": {key: getattr(item, key)}}, item.containers)


STEP = Step(
    field="lifecycle",
    changes=changes,
    identity=split_key,
    subject=lambda item: f"lifecycle {split_key(item)}",
    items=split,
)
