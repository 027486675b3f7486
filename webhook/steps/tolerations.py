"""tolerations: taints that the pod tolerates; two that differ only in how long are the same one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import TOLERATIONS, Json
from webhook.policy.scheduling import TolerationItem
from webhook.steps.base import Step


def changes(item: TolerationItem) -> Sequence[Change]:
    """The toleration."""
    return [EnsureItem(TOLERATIONS, _toleration(item))]


def _toleration(item: TolerationItem) -> Json:
    return item.model_dump(exclude_none=True, exclude={"onConflict"})


def _identity(item: TolerationItem) -> Hashable:
    return TOLERATIONS.identity(_toleration(item))


STEP = Step(
    field="tolerations",
    changes=changes,
    identity=_identity,
    subject=lambda item: f"toleration {item.key or 'of every taint'}",
)
