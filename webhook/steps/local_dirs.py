"""localDirs: what Spark's scratch space is on (LocalDirsFeatureStep), or further directories for it.

Without paths, the volumes that Spark has made get the source. With paths, each is a directory more, on a
volume of its own, and SPARK_LOCAL_DIRS lists it.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, EnsureItem, JoinEnv
from webhook.defaults import mount_path
from webhook.kinds import MOUNTS, VOLUMES
from webhook.local_dirs import SwapLocalDirs, added_name
from webhook.policy.spark_fields import LocalDirsItem
from webhook.spark import LOCAL_DIRS_ENV
from webhook.steps.base import Step, one


def changes(item: LocalDirsItem) -> Sequence[Change]:
    """Another source for Spark's volumes, or volumes, mounts and the variable of added directories."""
    source = item.source()
    if not item.paths:
        return [SwapLocalDirs(source)]
    wanted: list[Change] = []
    for path in map(mount_path, item.paths):
        name = added_name(path)
        wanted += [
            EnsureItem(VOLUMES, {"name": name, **source}),
            EnsureItem(MOUNTS, {"name": name, "mountPath": path}),
            JoinEnv(LOCAL_DIRS_ENV, path, ",", of_spark=True),
        ]
    return wanted


STEP = Step(
    field="localDirs",
    changes=changes,
    identity=lambda _item: "localDirs",
    subject=lambda _item: "localDirs",
    items=one,
)
