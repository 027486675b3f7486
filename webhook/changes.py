"""What a feature step may ask for: ensure an item of a list or a key of a map, under stated conflict rules.

A change only says what should be there; webhook.plan checks and writes it. Nothing here knows any single
feature. It must never write to a pod itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from webhook import spark
from webhook.kinds import ENV, Json, ListKind, hashable
from webhook.plan import Change, Plan, Refusal, not_found
from webhook.pod import Containers, Exactly, Place, containers_of
from webhook.reasons import Reason
from webhook.views import ListView, text_of

__all__ = ["Change", "EnsureItem", "EnsureKey", "JoinEnv"]

MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object together (k8s.io/apimachinery, TotalAnnotationSizeLimitB)."""


class EnsureItem:
    """An item should be in a list of the pod, or of the stated containers.

    Args:
        kind: which list
        item: the item as Kubernetes has it; never changed afterwards
        containers: `Spark`, `All` or names, for a container's list
        owned_reason: what it is called when Spark's own item stands in the way
        enough: item of the pod -> True if it does as well as this one, although it differs
    """

    __slots__ = (
        "_always_fits",
        "_canonical",
        "enough",
        "feature",
        "identity",
        "item",
        "owned_reason",
        "place",
    )

    def __init__(
        self,
        kind: ListKind,
        item: Any,
        containers: str | Sequence[str] | Exactly = "Spark",
        owned_reason: Reason = Reason.SPARK_OWNS,
        enough: Callable[[Any], bool] | None = None,
    ) -> None:
        self.feature = ""
        self.enough = enough
        self.place: Place = (kind, containers_of(containers))
        self.item = item
        self.owned_reason = owned_reason
        self.identity = kind.identity(item)
        self._always_fits = kind.limit is None and kind.unique is None
        self._canonical: Any = None

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        if self is other:
            return True
        if not isinstance(other, EnsureItem):
            return False
        return self.place[0].joined is not None or other.canonical == self.canonical

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        kind, containers = self.place
        wish = "joined" if kind.joined is not None else hashable(self.canonical)
        yield (*kind.within, kind.field, self.identity), containers if kind.in_container else None, wish

    @property
    def canonical(self) -> Any:
        """The item in its form for comparing."""
        if self._canonical is None:
            self._canonical = self.place[0].canonical(self.item)
        return self._canonical

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        views = plan.pod.known.get(self.place) or plan.pod.views(self.place)
        if views is None:
            return not_found(self.place[1])
        identity = self.identity
        for view in views:
            if identity in view.claims or identity in view.index:
                refusal = self._meet(plan, view)
                if refusal is not None:
                    return refusal
                continue
            view.claims[identity] = self
            if self._always_fits:
                plan.edits.append((view.add, identity, self.item))
            elif (refusal := self._add(plan, view)) is not None:
                return refusal
        return None

    def _add(self, plan: Plan, view: ListView) -> Refusal | None:
        """Nothing of this identity is there or planned: add it, unless the list could not take it."""
        kind = view.kind
        if kind.limit is not None and len(view) + len(plan.planned_items(view)) >= kind.limit:
            return Refusal(Reason.LIST_FULL, f"at most {kind.limit}")
        if kind.unique is not None and (text := self.item.get(kind.unique)) is not None:
            others = (*view.items, *plan.planned_items(view))
            if any(other.get(kind.unique) == text for other in others):
                return Refusal(Reason.NAME_TAKEN, f"{kind.unique} {text}")
        plan.edits.append((view.add, self.identity, self.item))
        return None

    def _meet(self, plan: Plan, view: ListView) -> Refusal | None:
        """Something of this identity is there, or somebody goes first who wants it."""
        identity = self.identity
        refusal = plan.claim(view, identity, self)
        if refusal is not None:
            return refusal
        kind = view.kind
        have = view.get(identity)
        if kind.joined is not None:
            return self._join(plan, view, kind.joined)
        if have is None:
            return None if plan.planned(view, identity) is not None else self._add(plan, view)
        if have == self.item or kind.canonical(have) == self.canonical:
            return None
        if self.enough is not None and self.enough(have):
            return None
        if kind.owned(have):
            return plan.stays(view, identity, self.owned_reason)
        if kind.filled_in(have):
            plan.edit_once(view.replace, identity, self.item)
            return None
        merged = kind.merged(have, self.item)
        if plan.on_conflict == "Replace" and kind.canonical(merged) == kind.canonical(have):
            return None
        refusal = plan.conflict(view, identity, self)
        if refusal is None:
            plan.edit_once(view.replace, identity, merged)
        return refusal

    def _join(self, plan: Plan, view: ListView, joined: Callable[[Json, Json], Json]) -> Refusal | None:
        """Items of such a kind never compete: both are had in one."""
        planned = plan.planned(view, self.identity)
        have = view.get(self.identity) if planned is None else plan.edits[planned][2]
        if have is None:
            return self._add(plan, view)
        item = joined(have, self.item)
        if planned is not None:
            plan.edits[planned] = (plan.edits[planned][0], self.identity, item)
        elif item != have:
            plan.edits.append((view.replace, self.identity, item))
        return None


class JoinEnv:
    """A text should be part of an environment variable, joined to what the author has, once only.

    Args:
        name: of the variable
        value: the text to join
        separator: between the author's text and ours
        containers: `Spark`, `All` or names
        of_spark: the variable may be one of Spark's own, which takes more entries (SPARK_LOCAL_DIRS)
    """

    __slots__ = ("feature", "name", "of_spark", "place", "separator", "value")

    def __init__(
        self,
        name: str,
        value: str,
        separator: str,
        containers: str | Sequence[str] | Exactly = "Spark",
        *,
        of_spark: bool = False,
    ) -> None:
        self.feature = ""
        self.of_spark = of_spark
        self.name = name
        self.value = value
        self.separator = separator
        self.place: Place = (ENV, containers_of(containers))

    def same_wish(self, other: Change) -> bool:
        """Texts joined to one variable do not compete, if the next pass can tell them apart again."""
        return isinstance(other, JoinEnv) and other.separator == self.separator

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        yield (ENV.field, self.name), self.place[1], ("joined by", self.separator)

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        views = plan.pod.known.get(self.place) or plan.pod.views(self.place)
        if views is None:
            return not_found(self.place[1])
        for view in views:
            refusal = self._check(plan, view)
            if refusal is not None:
                return refusal
        return None

    def _check(self, plan: Plan, view: ListView) -> Refusal | None:
        name = self.name
        refusal = plan.claim(view, name, self)
        if refusal is not None:
            return refusal
        planned = plan.planned(view, name)
        have = view.get(name) if planned is None else plan.edits[planned][2]
        if have is None:
            plan.edits.append((view.add, name, {"name": name, "value": self.value}))
            return None
        if ENV.owned(have) and not self.of_spark:
            return plan.stays(view, name, Reason.SPARK_OWNS)
        if have.get("valueFrom"):
            return plan.stays(view, name, Reason.NOT_JOINABLE)
        value = self._joined(text_of(have))
        if value is not None:
            item = {**have, "value": value}
            if planned is None:
                plan.edits.append((view.replace, name, item))
            else:
                plan.edits[planned] = (plan.edits[planned][0], name, item)
        return None

    def _joined(self, have: str) -> str | None:
        """The joined text; None if ours is part of it already."""
        if not have:
            return self.value or None
        separator = self.separator
        if self.value == have or (separator + self.value + separator) in (separator + have + separator):
            return None
        return have + separator + self.value


class EnsureKey:
    """A key of a map of the pod (labels, annotations, nodeSelector) should have this value."""

    __slots__ = ("feature", "field", "key", "value")

    def __init__(self, field: str, key: str, value: str) -> None:
        self.feature = ""
        self.field = field
        self.key = key
        self.value = value

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return isinstance(other, EnsureKey) and other.value == self.value

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        yield (self.field, self.key), None, self.value

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        view, key, value = plan.pod.map(self.field), self.key, self.value
        refusal = plan.claim(view, key, self)
        if refusal is not None:
            return refusal
        have = view.get(key)
        if have == value:
            return None
        if have is not None:
            if self.field == "labels" and spark.own_label(key):
                return plan.stays(view, key, Reason.SPARK_OWNS)
            refusal = plan.conflict(view, key, self)
            if refusal is not None:
                return refusal
        if self.field == "annotations" and view.size_with(key, value) > MAX_ANNOTATIONS:
            return Refusal(Reason.ANNOTATIONS_TOO_LARGE)
        plan.edit_once(view.put, key, value)
        return None
