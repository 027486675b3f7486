"""RequireNodes: the pod may run only on nodes that required terms select, whatever else it requires.

Kubernetes joins the terms of a pod's required node affinity by OR, so another requirement holds only if it is
part of each of them (AND). Requirements never compete: those of all policies and of the author hold together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from webhook.kinds import Json, hashable
from webhook.objects import MalformedPod
from webhook.plan import Change, Plan, Refusal
from webhook.pod import Containers

_PARENTS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_TERMS = "nodeSelectorTerms"
_PARTS = ("matchExpressions", "matchFields")


class RequireNodes:
    """The pod's nodes must meet one of these terms.

    Args:
        selector: a NodeSelector: {nodeSelectorTerms: [...]}
    """

    __slots__ = ("_terms", "feature")

    def __init__(self, selector: Json) -> None:
        self.feature = ""
        self._terms: list[Json] = [term for term in selector.get(_TERMS) or () if _parts(term)]

    def same_wish(self, _other: Change) -> bool:
        """See Change.same_wish."""
        return True

    def described(self) -> Iterable[tuple[Hashable, Containers | None, Hashable]]:
        """See Change.described."""
        return ()

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        view = plan.pod.spec.descend(_PARENTS)
        planned = next((at for at, edit in enumerate(plan.edits) if edit[0] == view.put), None)
        have = view.get(_TERMS) if planned is None else plan.edits[planned][2]
        if have is not None and not (isinstance(have, list) and all(isinstance(term, dict) for term in have)):
            raise MalformedPod(f"spec.{'.'.join(_PARENTS)}.{_TERMS}", "expected a list of objects")
        terms = self._narrowed(have) if have else self._terms
        if terms and terms != have:
            edit = (view.put, _TERMS, terms)
            if planned is None:
                plan.edits.append(edit)
            else:
                plan.edits[planned] = edit
        return None

    def _narrowed(self, have: list[Json]) -> list[Json]:
        """Each term of the pod with each of ours; one that has all of ours already is as it should be."""
        result: list[Json] = []
        for term in have:
            # An empty term selects no node, so there is nothing to narrow.
            if not _parts(term) or any(not _missing(term, ours) for ours in self._terms):
                result.append(term)
                continue
            result += [_joined(term, ours) for ours in self._terms]
        return result


def _parts(term: Json) -> bool:
    return any(term.get(part) for part in _PARTS)


def _missing(term: Json, ours: Json) -> Json:
    """What of our term the pod's one does not have."""
    missing: Json = {}
    for part in _PARTS:
        known = {_requirement(item) for item in term.get(part) or ()}
        if found := [item for item in ours.get(part) or () if _requirement(item) not in known]:
            missing[part] = found
    return missing


def _joined(term: Json, ours: Json) -> Json:
    added = _missing(term, ours)
    return {**term, **{part: [*(term.get(part) or ()), *items] for part, items in added.items()}}


def _requirement(item: Any) -> Hashable:
    if not isinstance(item, dict):
        return hashable(item)
    values = item.get("values") or ()
    return (item.get("key"), item.get("operator"), frozenset(map(str, values)))
