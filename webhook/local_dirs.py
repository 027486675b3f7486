"""Spark's scratch space: another source for the volumes that Spark makes for it by default.

LocalDirsFeatureStep makes a plain emptyDir `spark-local-dir-<n>` for each directory, unless the author has
volumes of such names; their mounts are what SPARK_LOCAL_DIRS lists. A swap keeps names, mounts and the
variable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable

from webhook.kinds import VOLUMES, Json
from webhook.plan import Change, Plan, Refusal
from webhook.pod import Containers
from webhook.reasons import Reason
from webhook.spark import LOCAL_DIRS_PREFIX

# Of directories that a policy adds: never swapped, since a policy chose their source.
_ADDED_PREFIX = LOCAL_DIRS_PREFIX + "added-"


def added_name(path: str) -> str:
    """The name of the volume for a directory that a policy adds, the same for the same path."""
    return _ADDED_PREFIX + hashlib.sha256(path.encode()).hexdigest()[:8]


class SwapLocalDirs:
    """Every scratch volume of Spark's should have this source.

    The plain emptyDir that Spark makes by default is nobody's wish; any other source is the author's.

    Args:
        source: a volume without its name: {"emptyDir": {...}}
    """

    __slots__ = ("feature", "source")

    def __init__(self, source: Json) -> None:
        self.feature = ""
        self.source = source

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return isinstance(other, SwapLocalDirs) and other.source == self.source

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        yield ("volumes", LOCAL_DIRS_PREFIX), None, str(self.source)

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        (view,) = plan.pod.views((VOLUMES, "Spark")) or ()
        names = [
            name
            for name in view.index
            if str(name).startswith(LOCAL_DIRS_PREFIX) and not str(name).startswith(_ADDED_PREFIX)
        ]
        if not names:
            return Refusal(Reason.VOLUME_NOT_FOUND, f"{LOCAL_DIRS_PREFIX}*")
        for name in names:
            refusal = plan.claim(view, name, self)
            if refusal is not None:
                return refusal
            have, want = view.get(name), {"name": name, **self.source}
            if VOLUMES.canonical(have) == VOLUMES.canonical(want):
                continue
            if VOLUMES.canonical(have) != {"name": name, "emptyDir": {}}:
                refusal = plan.conflict(view, name, self)
                if refusal is not None:
                    return refusal
            plan.edit_once(view.replace, name, want)
        return None
