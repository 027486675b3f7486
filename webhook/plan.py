"""The planner: checks all changes of a feature against a pod and writes either all of them or none.

A change only says what should be there. Nothing here knows any kind of change, nor any single feature.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from webhook.objects import ObjectView
from webhook.pod import Containers, SparkPod
from webhook.reasons import Reason
from webhook.views import ListView


class Change(Protocol):
    """One thing that should be there. `feature` is the id of the feature that asks for it."""

    feature: str

    def check(self, plan: Plan) -> Refusal | None:
        """Add to the plan what has to be written, or say why it can't be."""

    def same_wish(self, other: Change) -> bool:
        """True if the other change wants the very same at this place, or both can be had there."""

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """The places it claims, with the containers, and what it wants there: equal if they go together."""


class Refused:
    """A wish that is never met, so that its reason is told as any other's."""

    __slots__ = ("_refusal", "feature")

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.feature = ""
        self._refusal = Refusal(reason, detail)

    def check(self, _plan: Plan) -> Refusal:
        """See Change.check."""
        return self._refusal

    def same_wish(self, _other: Change) -> bool:
        """See Change.same_wish."""
        return True

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        return ()


View = ListView | ObjectView
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
        for other, place, _ in self.edits:
            if place == identity and other == edit:
                return
        self.edits.append((edit, identity, wanted))

    def planned_items(self, view: ListView) -> list[Any]:
        """The items that this plan adds to a list."""
        return [wanted for edit, _, wanted in self.edits if edit == view.add]

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


def not_found(containers: Containers | None) -> Refusal:
    """The containers that a change is for are not there."""
    if containers == "Spark":
        return Refusal(Reason.SPARK_CONTAINER_NOT_FOUND)
    return Refusal(Reason.CONTAINER_NOT_FOUND)
