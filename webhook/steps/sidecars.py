"""sidecars: containers that are added beside Spark's, by default native ones.

A native sidecar is an init container with `restartPolicy: Always`: it starts before Spark, and a driver's pod
completes although it still runs (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/).
They pass the restricted Pod Security Standard and have requests and limits by default.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change
from webhook.containers import EnsureContainer
from webhook.injected_defaults import completed
from webhook.pod import ListField
from webhook.policy.containers import SidecarItem
from webhook.steps.base import Step, position


def changes(item: SidecarItem) -> Sequence[Change]:
    """The container, in its place."""
    container = item.container()
    if item.native:
        container["restartPolicy"] = "Always"
    field: ListField = "initContainers" if item.native else "containers"
    return [EnsureContainer(field, container, position(item), completed(container))]


STEP = Step(
    field="sidecars",
    changes=changes,
    identity=lambda item: item.name,
    subject=lambda item: f"sidecar {item.name}",
)
