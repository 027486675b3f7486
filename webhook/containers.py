"""EnsureContainer: a container should be in the pod, added whole or, where it is already, merged into it.

It must never touch Spark's own container.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

from webhook import partial
from webhook.kinds import Json, hashable
from webhook.plan import Change, Plan, Refusal
from webhook.pod import Containers, Exactly, ListField, SparkPod
from webhook.reasons import Reason
from webhook.spark import CONTAINER_PLACEHOLDER
from webhook.volume_needs import NeedVolume


class Position(NamedTuple):
    """Where among the containers of its list one is added: first, last, before or after another one.

    `name` is that of the other one, `spark` for Spark's; where it is not there, the new one is added last.
    """

    where: Literal["First", "Last", "Before", "After"]
    name: str = ""


LAST = Position("Last")


class EnsureContainer:
    """A container should be in one of the two lists.

    With a container of that name it is merged field by field, under the rule of the feature.
    The name alone decides which one that is, in both lists together: Kubernetes wants it unique there.

    Args:
        field: the list
        container: what is stated of it, as Kubernetes has it; never changed afterwards
        position: where it is added
        added: what is added where it is not there yet; by default what is stated
    """

    __slots__ = ("_changes", "_stated", "container", "feature", "field", "name", "position")

    def __init__(
        self, field: ListField, container: Json, position: Position = LAST, added: Json | None = None
    ) -> None:
        self.feature = ""
        self._stated = container
        self.field = field
        self.name: str = container["name"]
        self.container = container if added is None else added
        self.position = position
        self._changes = partial.of_container(container, Exactly(self.name))

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return (
            isinstance(other, EnsureContainer) and other.field == self.field and other._stated == self._stated
        )

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        yield ("containers", self.name), None, (self.field, hashable(self._stated))

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        pod = plan.pod
        refusal = plan.claim(pod.names, self.name, self)
        if refusal is not None:
            return refusal
        have = pod.container(self.name)
        if have is None:
            return self._add(plan)
        if have is pod.spark_container:
            return plan.stays(pod.names, self.name, Reason.SPARK_OWNS)
        if have.field != self.field:
            return plan.stays(pod.names, self.name, Reason.NAME_TAKEN)
        for change in self._changes:
            change.feature = self.feature
            refusal = change.check(plan)
            if refusal is not None:
                return refusal
        return None

    def _add(self, plan: Plan) -> Refusal | None:
        if not self.container.get("image"):
            # A part of a container that another one was to have.
            return Refusal(Reason.CONTAINER_NOT_FOUND, self.name)
        for change in self._changes:
            if isinstance(change, NeedVolume) and (refusal := change.check(plan)) is not None:
                return refusal
        plan.edit_once(plan.pod.insert_container, self.name, self)
        return None

    def place(self, pod: SparkPod, names: list[str | None]) -> int:
        """The index at which it is to be inserted among the containers of its list."""
        where, name = self.position
        if where == "First":
            return 0
        if where != "Last":
            if name == CONTAINER_PLACEHOLDER and pod.spark_container is not None:
                name = pod.spark_container.name or ""
            if name in names:
                return names.index(name) + (where == "After")
        return len(names)
