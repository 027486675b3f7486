"""Which policies ask for different things at one place of the same pods. Pure, and without any pod.

It sees what can be seen beforehand: a pod's own labels, and values that placeholders stand for, are not known
here. Two policies that no namespace of the cluster has in common do not conflict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook import spark
from webhook.changes import Change, EnsureItem, EnsureKey
from webhook.namespaces import Namespace
from webhook.policy.compiled import CompiledPolicy, Feature
from webhook.policy.lint import overlap
from webhook.policy.model import Policy

# Of the policies that ask for something at one place, so many are compared with each other.
_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Conflict:
    """A policy's feature that `winner` goes before; both are names, as `CompiledPolicy.name`."""

    policy: str
    field: str
    subject: str
    winner: str


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A policy and where it applies. `namespaces` are names of those known that it is for."""

    policy: Policy
    compiled: CompiledPolicy
    namespaces: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Wish:
    scope: Scope
    feature: Feature
    change: Change
    containers: Any


def scope(policy: Policy, compiled: CompiledPolicy, namespaces: Mapping[str, Namespace]) -> Scope:
    """Where a policy applies, among these namespaces."""
    if policy.namespace is not None:
        return Scope(policy, compiled, frozenset({policy.namespace} & namespaces.keys()))
    matches = compiled.namespaces
    found = (name for name, it in namespaces.items() if matches is None or matches(it.labels))
    return Scope(policy, compiled, frozenset(found))


def find(scopes: Iterable[Scope]) -> dict[str, list[Conflict]]:
    """The conflicts of each policy that another one goes before, by its name."""
    places: dict[Hashable, list[_Wish]] = defaultdict(list)
    for one in sorted(scopes, key=lambda one: one.compiled.precedence):
        for role in (spark.DRIVER, spark.EXECUTOR):
            for feature in one.compiled.features[role]:
                for change in feature.wishes():
                    if (place := _place(change)) is not None:
                        where, containers = place
                        places[(role, where)].append(_Wish(one, feature, change, containers))
    found: dict[str, dict[str, Conflict]] = defaultdict(dict)
    for wishes in places.values():
        for conflict in _conflicts(wishes):
            found[conflict.policy].setdefault(conflict.field, conflict)
    return {name: list(by_field.values()) for name, by_field in found.items()}


def _place(change: Change) -> tuple[Hashable, Any] | None:
    """Where something is asked for, and in which containers; None where wishes add up."""
    if isinstance(change, EnsureItem):
        kind, containers = change.place
        return (kind.field, change.identity), containers
    if isinstance(change, EnsureKey):
        return (change.field, change.key), "All"
    return None


def _conflicts(wishes: Sequence[_Wish]) -> Iterator[Conflict]:
    """`wishes` for one place, in order of precedence."""
    first = wishes[0]
    if all(first.change.same_wish(wish.change) for wish in wishes):
        return
    local: dict[str, list[_Wish]] = defaultdict(list)
    everywhere: list[_Wish] = []
    for wish in wishes:
        namespace = wish.scope.policy.namespace
        earlier = everywhere if namespace is None else [*everywhere, *local[namespace]]
        if namespace is None:
            # A namespaced policy may go before one of the cluster; what they meet in is the namespace.
            earlier = [
                *everywhere,
                *(other for name in wish.scope.namespaces for other in local.get(name, ())),
            ]
        winner = next((other for other in earlier[:_COMPARED] if _differ(other, wish)), None)
        if winner is not None:
            name, feature = wish.scope.compiled.name, wish.feature
            yield Conflict(name, feature.field, feature.subject, winner.scope.compiled.name)
        (everywhere if namespace is None else local[namespace]).append(wish)


def _differ(one: _Wish, other: _Wish) -> bool:
    return (
        one.scope is not other.scope
        and not one.change.same_wish(other.change)
        and overlap(_listed(one.containers), _listed(other.containers))
        and not one.scope.namespaces.isdisjoint(other.scope.namespaces)
        and not _disjoint(one.scope.policy, other.scope.policy)
    )


def _listed(containers: Any) -> Any:
    return list(containers) if isinstance(containers, tuple) else containers


def _disjoint(one: Policy, other: Policy) -> bool:
    """True if no pod can match both, as far as equal labels tell."""
    selectors = one.spec.match.podSelector, other.spec.match.podSelector
    if selectors[0] is None or selectors[1] is None:
        return False
    wanted = selectors[1].matchLabels
    return any(wanted.get(key, value) != value for key, value in selectors[0].matchLabels.items())
