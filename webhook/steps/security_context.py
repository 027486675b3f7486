"""securityContext: the security context of containers, key by key."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change
from webhook.partial import of_container
from webhook.policy.containers import SecurityContextItem
from webhook.steps.base import Step, split, split_key


def changes(item: SecurityContextItem) -> Sequence[Change]:
    """The one key of the item."""
    key = split_key(item)
    return of_container({"securityContext": {key: getattr(item, key)}}, item.containers)


STEP = Step(
    field="securityContext",
    changes=changes,
    identity=split_key,
    subject=lambda item: f"securityContext {split_key(item)}",
    items=split,
)
