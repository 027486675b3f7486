"""EnsureField: a single field of the pod, of an object in it, or of containers should have a stated value.

The value is a scalar, or an object or list that only means something as a whole. It must never know a policy.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from webhook import defaults
from webhook.kinds import hashable
from webhook.objects import ObjectView
from webhook.plan import Change, Plan, Refusal, not_found
from webhook.pod import Containers, Exactly, SparkPod, containers_of
from webhook.reasons import Reason

NOT_FOR_INIT_CONTAINERS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"

# Spark's entry point, and what Spark's scheduler backend relies on.
_ENTRY_POINT = frozenset({("command",), ("args",)})
_OF_SPARK = _ENTRY_POINT | {("resources", "requests", "memory")}
_OF_SPARK_IN_SPEC = frozenset({("restartPolicy",)})
# Fields of a spec that an API server derived from another one's old value before any webhook was asked, and
# derives anew afterwards (admission plugins Priority, RuntimeClass, ServiceAccount): a value that no longer
# fits would make the pod invalid, so it goes with the old value.
_DERIVED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("priorityClassName",): ("priority", "preemptionPolicy"),
    ("runtimeClassName",): ("overhead",),
    ("serviceAccountName",): ("serviceAccount",),
}
_LIMIT_RANGER = re.compile(r"([^;]+) (request|limit) for (?:init )?container ([^;\s]+)")


class EnsureField:
    """A field should have this value.

    Args:
        path: keys from the pod's spec, or from each of the containers, to the field
        value: what it should be; never changed afterwards
        containers: `Spark`, `All`, names, exactly one; None for a field of the pod
    """

    __slots__ = ("_canonical", "containers", "feature", "path", "value")

    def __init__(
        self,
        path: tuple[str, ...],
        value: Any,
        containers: str | Sequence[str] | Exactly | None = None,
    ) -> None:
        self.feature = ""
        self.path = path
        self.value = value
        self.containers: Containers | None = None if containers is None else containers_of(containers)
        self._canonical = defaults.value(path, value)

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return isinstance(other, EnsureField) and other._canonical == self._canonical

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        place = ("spec" if self.containers is None else "container", *self.path)
        yield place, self.containers, hashable(self._canonical)

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        views = plan.pod.objects(self.containers, self.path[:-1])
        if views is None:
            return not_found(self.containers)
        for view in views:
            if self.containers == "All" and self._not_for(view):
                continue
            refusal = self._check(plan, view)
            if refusal is not None:
                return refusal
        return None

    def _check(self, plan: Plan, view: ObjectView) -> Refusal | None:
        key = self.path[-1]
        refusal = plan.claim(view, key, self)
        if refusal is not None:
            return refusal
        have = view.get(key)
        if defaults.value(self.path, have) == self._canonical:
            return None
        if self._is_sparks(plan.pod, view) and (have is not None or self.path in _ENTRY_POINT):
            return plan.stays(view, key, Reason.SPARK_OWNS)
        if have is not None and have not in ({}, []) and not self._filled_in(plan.pod, view, have):
            refusal = plan.conflict(view, key, self)
            if refusal is not None:
                return refusal
        plan.edit_once(view.put, key, self.value)
        for other in _DERIVED.get(self.path, ()) if self.containers is None else ():
            plan.edit_once(view.drop, other, None)
        return None

    def _not_for(self, view: ObjectView) -> bool:
        """True for what an init container can't have, since it ends before the others begin."""
        container = view.root
        return (
            self.path[0] in NOT_FOR_INIT_CONTAINERS
            and container.path.startswith("/spec/initContainers/")
            and container.get("restartPolicy") != "Always"
        )

    def _is_sparks(self, pod: SparkPod, view: ObjectView) -> bool:
        if self.containers is None:
            return self.path in _OF_SPARK_IN_SPEC
        own = pod.spark_container
        return self.path in _OF_SPARK and own is not None and view.root is own.view

    def _filled_in(self, pod: SparkPod, view: ObjectView, have: Any) -> bool:
        """True if Kubernetes, and not the author, chose the value."""
        if self.containers is None:
            return defaults.filled_in_spec(self.path, have)
        if self.path[0] == "resources" and len(self.path) == 3:
            return limit_ranger_set(pod, view.root.get("name"), self.path[1], self.path[2])
        return defaults.filled_in_container(self.path, have, view.raw or {})


def limit_ranger_set(pod: SparkPod, container: Any, kind: str, resource: str) -> bool:
    """True if the LimitRanger admission plugin, by its own annotation, set this request or limit.

    Args:
        container: name of the container
        kind: `requests` or `limits`
        resource: `cpu`, `memory`, ...
    """
    text = pod.map("annotations").get(LIMIT_RANGER_ANNOTATION)
    if not isinstance(text, str):
        return False
    for match in _LIMIT_RANGER.finditer(text.partition(":")[2]):
        names = [name.strip() for name in match[1].split(",")]
        if match[3] == container and f"{match[2]}s" == kind and resource in names:
            return True
    return False
