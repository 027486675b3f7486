"""volumes: any Kubernetes volume, and where Spark's or other containers mount it (MountVolumesFeatureStep).

All of a volume's mounts and the volume itself are one feature.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import MOUNTS, VOLUMES
from webhook.policy.items import VolumeItem
from webhook.steps.base import Step


def changes(item: VolumeItem) -> Sequence[Change]:
    """The volume and each of its mounts."""
    mounts = [EnsureItem(MOUNTS, mount.mount(item.name), mount.containers) for mount in item.mounts]
    return [EnsureItem(VOLUMES, item.volume()), *mounts]


STEP = Step(
    field="volumes",
    changes=changes,
    identity=lambda item: item.name,
    subject=lambda item: f"volume {item.name}",
)
