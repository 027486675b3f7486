"""What a feature step may ask for: ensure an item of a list or a key of a map, under stated conflict rules.

A change only says what should be there. `Plan` checks all changes of a feature against the pod and against
the features before it, and writes either all of them or none. Nothing here knows any single feature.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from webhook import spark
from webhook.kinds import ENV, Json, ListKind
from webhook.pod import Place, SparkPod
from webhook.reasons import Reason
from webhook.views import ListView, MapView, text_of

MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object together (k8s.io/apimachinery, TotalAnnotationSizeLimitB)."""


class Change(Protocol):
    """One thing that should be there. `feature` is the id of the feature that asks for it."""

    feature: str

    def check(self, plan: Plan) -> Refusal | None:
        """Add to the plan what has to be written, or say why it can't be."""

    def same_wish(self, other: Change) -> bool:
        """True if the other change wants the very same at this place."""


View = ListView | MapView
Edit = Callable[[Any, Any], None]


class Refusal(NamedTuple):
    """Why a change can't be made; `detail` is what else a reader should know."""

    reason: Reason
    detail: str = ""


class Plan:
    """The changes of one feature (or of one atomic policy) against one pod: checked first, then written.

    A change that is checked claims its place (`claims` of the view): later features can't ask for something
    else there, also when the claim's own feature was refused. So the features that go first decide, and a
    second pass over the result (reinvocation) decides the same: nothing can have come to stand where a
    refused feature would meet it. Where one was refused on account of what is there, the place is `firm`:
    what is there stays, even if a later feature has the same wish and may replace.

    A plan is used again for the next feature after `write` or `refuse`.

    Args:
        pod: the pod as it is after the features before

    Attributes:
        on_conflict: the rule of the feature being checked: `Keep`, `Replace` or `Reject`
        replacing: features that take the place of a value of the author's
        edits: what to write: the view's method, identity and value
    """

    __slots__ = ("edits", "on_conflict", "pod", "replacing")

    def __init__(self, pod: SparkPod) -> None:
        self.pod = pod
        self.on_conflict = "Keep"
        self.replacing: list[str] = []
        self.edits: list[tuple[Edit, Any, Any]] = []

    def check(self, on_conflict: str, changes: Sequence[Change]) -> Refusal | None:
        """Check the changes of a feature; what they need is kept until `write` or `refuse`."""
        self.on_conflict = on_conflict
        for change in changes:
            refusal = change.check(self)
            if refusal is not None:
                return refusal
        return None

    def write(self) -> None:
        """Write all edits."""
        for edit, identity, wanted in self.edits:
            edit(identity, wanted)
        self.edits.clear()

    def refuse(self) -> None:
        """Write nothing, and make ready for the next feature."""
        self.edits.clear()
        self.replacing = []

    def label_changes(self) -> list[tuple[str, str | None]]:
        """The labels that `write` would change, with their values before."""
        labels = self.pod.map("labels")
        return [(key, labels.get(key)) for edit, key, _ in self.edits if edit == labels.put]

    def claim(self, view: View, identity: Hashable, change: Change) -> Refusal | None:
        """Claim a place, unless an earlier claim wants something else there."""
        claim: Change | None = view.claims.get(identity)
        if claim is None:
            view.claims[identity] = change
        elif identity in view.firm or not change.same_wish(claim):
            return Refusal(Reason.POLICY_CONFLICT, claim.feature)
        return None

    def edit_once(self, edit: Edit, identity: Hashable, wanted: Any) -> None:
        """Keep an edit, unless this plan writes the very same already."""
        if not any(place == identity and other == edit for other, place, _ in self.edits):
            self.edits.append((edit, identity, wanted))

    def planned(self, view: ListView, identity: Hashable) -> int | None:
        """The index of the edit that will write this item; None if there is none."""
        writes = (view.add, view.replace)
        for index, (edit, place, _) in enumerate(self.edits):
            if place == identity and edit in writes:
                return index
        return None

    def stays(self, view: View, identity: Hashable, reason: Reason) -> Refusal:
        """What is there is somebody's and stays."""
        view.firm.add(identity)
        return Refusal(reason)

    def conflict(self, view: View, identity: Hashable, change: Change) -> Refusal | None:
        """Apply onConflict to a value of the author's; None: it may be replaced."""
        if self.on_conflict == "Replace":
            self.replacing.append(change.feature)
            return None
        reason = Reason.CONFLICT_REJECTED if self.on_conflict == "Reject" else Reason.CONFLICT_KEPT
        return self.stays(view, identity, reason)


def _not_found(place: Place) -> Refusal:
    return Refusal(Reason.SPARK_CONTAINER_NOT_FOUND if place[1] == "Spark" else Reason.CONTAINER_NOT_FOUND)


def _place(kind: ListKind, containers: str | Sequence[str]) -> Place:
    return (kind, containers if isinstance(containers, str) else tuple(containers))


class EnsureItem:
    """An item should be in a list of the pod, or of the stated containers.

    Args:
        kind: which list
        item: the item as Kubernetes has it; never changed afterwards
        containers: `Spark`, `All` or names, for a container's list
        owned_reason: what it is called when Spark's own item stands in the way
    """

    __slots__ = ("_canonical", "feature", "identity", "item", "owned_reason", "place")

    def __init__(
        self,
        kind: ListKind,
        item: Json,
        containers: str | Sequence[str] = "Spark",
        owned_reason: Reason = Reason.SPARK_OWNS,
    ) -> None:
        self.feature = ""
        self.place = _place(kind, containers)
        self.item = item
        self.owned_reason = owned_reason
        self.identity = kind.identity(item)
        self._canonical: Any = None

    def same_wish(self, other: Change) -> bool:
        """See Change.same_wish."""
        return self is other or (isinstance(other, EnsureItem) and other.canonical == self.canonical)

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
            return _not_found(self.place)
        identity = self.identity
        for view in views:
            if identity in view.claims or identity in view.index:
                refusal = self._meet(plan, view)
                if refusal is not None:
                    return refusal
            else:
                view.claims[identity] = self
                plan.edits.append((view.add, identity, self.item))
        return None

    def _meet(self, plan: Plan, view: ListView) -> Refusal | None:
        """Something of this identity is there, or somebody goes first who wants it."""
        identity = self.identity
        refusal = plan.claim(view, identity, self)
        if refusal is not None:
            return refusal
        have = view.get(identity)
        if have is None:
            plan.edit_once(view.add, identity, self.item)
            return None
        kind = view.kind
        if have == self.item or kind.canonical(have) == self.canonical:
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


class JoinEnv:
    """A text should be part of an environment variable, joined to what the author has, once only.

    Args:
        name: of the variable
        value: the text to join
        separator: between the author's text and ours
        containers: `Spark`, `All` or names
    """

    __slots__ = ("feature", "name", "place", "separator", "value")

    def __init__(
        self, name: str, value: str, separator: str, containers: str | Sequence[str] = "Spark"
    ) -> None:
        self.feature = ""
        self.name = name
        self.value = value
        self.separator = separator
        self.place = _place(ENV, containers)

    def same_wish(self, other: Change) -> bool:
        """Texts joined to one variable do not compete, if the next pass can tell them apart again."""
        return isinstance(other, JoinEnv) and other.separator == self.separator

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        views = plan.pod.known.get(self.place) or plan.pod.views(self.place)
        if views is None:
            return _not_found(self.place)
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
        if ENV.owned(have):
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
