"""initContainers: containers that are added and must have ended well before Spark's begins.

They pass the restricted Pod Security Standard and have requests and limits by default.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change
from webhook.containers import EnsureContainer
from webhook.injected_defaults import completed
from webhook.policy.containers import InitContainerItem
from webhook.steps.base import Step, position


def changes(item: InitContainerItem) -> Sequence[Change]:
    """The container, in its place."""
    container = item.container()
    return [EnsureContainer("initContainers", container, position(item), completed(container))]


STEP = Step(
    field="initContainers",
    changes=changes,
    identity=lambda item: item.name,
    subject=lambda item: f"init container {item.name}",
)
