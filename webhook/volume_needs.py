"""NeedVolume: what mounts a volume that it does not bring along needs that volume in the pod.

A mount without its volume would make the pod invalid, and an API server refuses an invalid pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from webhook.kinds import VOLUMES
from webhook.plan import Change, Plan, Refusal
from webhook.pod import Containers
from webhook.reasons import Reason


class NeedVolume:
    """A volume of this name must be in the pod, or be added by this feature or one before it.

    One that a policy after this one adds does not count: in a later pass it is there, in the first it is not,
    and both must decide the same.
    """

    __slots__ = ("feature", "name")

    def __init__(self, name: str) -> None:
        self.feature = ""
        self.name = name

    def same_wish(self, _other: Change) -> bool:
        """See Change.same_wish."""
        return True

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        return ()

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        pod = plan.pod
        (view,) = pod.views((VOLUMES, "Spark")) or ()
        if self.name in view.index and (self.name in view.claims or self.name not in pod.injected.volumes):
            return None
        if plan.planned(view, self.name) is not None:
            return None
        return Refusal(Reason.VOLUME_NOT_FOUND, self.name)
