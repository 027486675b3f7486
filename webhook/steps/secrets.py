"""secrets: mount a Secret, as Spark's MountSecretsFeatureStep does.

Read-only by default, with items, modes and sub paths. The two types of the Spark operator set the variable
by which Google's and Hadoop's libraries find the file. It must never read a Secret.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from webhook import spark
from webhook.changes import Change, EnsureItem
from webhook.defaults import mount_path
from webhook.kinds import ENV
from webhook.policy.items import SecretItem
from webhook.steps.base import Step, mounted, projection, volume_name

# type -> (variable, file name in the secret unless `items` names one)
_FILES = {
    "GCPServiceAccount": ("GOOGLE_APPLICATION_CREDENTIALS", "key.json"),
    "HadoopDelegationToken": (spark.TOKEN_ENV, "hadoop.token"),
}


def changes(item: SecretItem) -> Sequence[Change]:
    """The secret's volume, its mount, and the variable of its type."""
    options = projection(item)
    source = {"secretName": item.name, **options}
    wanted = mounted({"name": volume_name(item.name, "volume", options), "secret": source}, item)
    if item.type in _FILES:
        variable, file = _FILES[item.type]
        wanted.append(EnsureItem(ENV, {"name": variable, "value": _path(item, file)}, item.containers))
    return wanted


def _path(item: SecretItem, file: str) -> str:
    if item.subPath:
        return item.mountPath  # a sub path mounts the file itself
    if item.items is not None and len(item.items) == 1:
        file = item.items[0]["path"]
    return posixpath.join(item.mountPath, file)


STEP = Step(
    field="secrets",
    changes=changes,
    identity=lambda item: mount_path(item.mountPath),
    subject=lambda item: f"secret {item.name}",
)
