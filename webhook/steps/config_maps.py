"""configMaps: mount a ConfigMap, read-only by default, with items, modes and sub paths."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.defaults import mount_path
from webhook.plan import Change
from webhook.policy.items import ConfigMapItem
from webhook.steps.base import Step, mounted, projection, volume_name


def changes(item: ConfigMapItem) -> Sequence[Change]:
    """The config map's volume and its mount."""
    options = projection(item)
    source = {"name": item.name, **options}
    return mounted({"name": volume_name(item.name, "configmap", options), "configMap": source}, item)


STEP = Step(
    field="configMaps",
    changes=changes,
    identity=lambda item: mount_path(item.mountPath),
    subject=lambda item: f"configMap {item.name}",
)
