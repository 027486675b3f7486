"""Which policies ask for different things at one place of the same pods. Pure, and without any pod.

It sees what can be seen beforehand: a pod's own labels, and values that placeholders stand for, are not known
here. Two policies that no namespace of the cluster has in common do not conflict.

Policies are bits of a number, the first in precedence the lowest, so that no two of them are ever compared:
a thousand that ask for one variable are found as fast as two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from webhook import spark
from webhook.namespaces import Namespace
from webhook.policy.compiled import CompiledPolicy
from webhook.policy.lint import listed, overlap
from webhook.policy.model import LabelSelector, Policy


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


@dataclass(slots=True, eq=False)
class _Asking:
    """The policies that ask for something at one place of the same containers, and for what."""

    all: int = 0
    by_wish: dict[Hashable, int] = field(default_factory=lambda: defaultdict(int))


def scope(policy: Policy, compiled: CompiledPolicy, namespaces: Mapping[str, Namespace]) -> Scope:
    """Where a policy applies, among these namespaces."""
    if policy.namespace is not None:
        return Scope(policy, compiled, frozenset({policy.namespace} & namespaces.keys()))
    matches = compiled.namespaces
    found = (name for name, it in namespaces.items() if matches is None or matches(it.labels))
    return Scope(policy, compiled, frozenset(found))


def find(scopes: Iterable[Scope]) -> dict[str, list[Conflict]]:
    """The conflicts of each policy that another one goes before, by its name."""
    ordered = sorted(scopes, key=lambda one: one.compiled.precedence)
    meetings = _meetings(ordered)
    places: dict[Hashable, dict[Hashable, _Asking]] = defaultdict(lambda: defaultdict(_Asking))
    found: dict[str, dict[str, Conflict]] = defaultdict(dict)
    for index, (one, met) in enumerate(zip(ordered, meetings, strict=True)):
        for role in (spark.DRIVER, spark.EXECUTOR):
            for feature in one.compiled.features[role]:
                for change in feature.wishes():
                    for where, containers, wish in change.described():
                        place = places[role, where]
                        first = _first_other(place, containers, wish, met)
                        if first is not None:
                            winner = ordered[first].compiled.name
                            conflict = Conflict(one.compiled.name, feature.field, feature.subject, winner)
                            found[conflict.policy].setdefault(conflict.field, conflict)
                        asking = place[containers]
                        if not asking.all >> index:  # of its own wishes for one place, the first one counts
                            asking.all |= 1 << index
                            asking.by_wish[wish] |= 1 << index
    return {name: list(by_field.values()) for name, by_field in found.items()}


def _first_other(
    place: Mapping[Hashable, _Asking], containers: Hashable, wish: Hashable, met: int
) -> int | None:
    """The first of the policies in `met` that asks for something else in one of these containers."""
    others = 0
    for theirs, asking in place.items():
        if theirs == containers or overlap(listed(theirs), listed(containers)):
            others |= asking.all & ~asking.by_wish.get(wish, 0)
    others &= met
    return _lowest(others) if others else None


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _meetings(scopes: Sequence[Scope]) -> Iterator[int]:
    """For each policy, those before it that can be for the same pods as it is."""
    in_namespace: dict[str, int] = defaultdict(int)
    that_need: dict[str, int] = defaultdict(int)
    that_take: dict[tuple[str, str], int] = defaultdict(int)
    for index, one in enumerate(scopes):
        met, bit = 0, 1 << index
        for name in one.namespaces:
            met |= in_namespace[name]
            in_namespace[name] |= bit
        for key, values in _needed(one.policy.spec.match.podSelector):
            alike = 0
            for value in values:
                alike |= that_take[key, value]
                that_take[key, value] |= bit
            met &= ~that_need[key] | alike
            that_need[key] |= bit
        yield met


def _needed(selector: LabelSelector | None) -> Iterator[tuple[str, set[str]]]:
    """The labels that a pod must have, each with the values that it may have; each key once."""
    allowed: dict[str, set[str]] = {}
    if selector is not None:
        stated = [(key, {value}) for key, value in selector.matchLabels.items()]
        stated += [
            (term.key, set(term.values or ())) for term in selector.matchExpressions if term.operator == "In"
        ]
        for key, values in stated:
            allowed[key] = allowed.get(key, values) & values
    yield from allowed.items()
