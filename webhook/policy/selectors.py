"""Label selectors, compiled once and asked often. They must never look at anything but the labels given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from webhook.policy.model import LabelSelector

Labels = Mapping[str, str]
Matches = Callable[[Labels], bool]


def compile_selector(selector: LabelSelector | None) -> Matches | None:
    """A predicate on labels with the meaning of a Kubernetes LabelSelector; None if it matches everything.

    As in Kubernetes, NotIn and DoesNotExist also match where the key is absent.
    """
    if selector is None:
        return None
    tests = [_equals(key, value) for key, value in selector.matchLabels.items()]
    tests += [
        _expression(term.key, term.operator, tuple(term.values or ())) for term in selector.matchExpressions
    ]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def anchor(selector: LabelSelector | None) -> tuple[str, str] | None:
    """One label that a matching object must have, for an index; None if no single one is needed."""
    return next(iter(selector.matchLabels.items()), None) if selector is not None else None


def keys(selector: LabelSelector | None) -> set[str]:
    """The label keys that the selector reads."""
    if selector is None:
        return set()
    return set(selector.matchLabels) | {term.key for term in selector.matchExpressions}


def _equals(key: str, value: str) -> Matches:
    return lambda labels: labels.get(key) == value


def _expression(key: str, operator: str, values: tuple[str, ...]) -> Matches:
    allowed = frozenset(values)
    match operator:
        case "In":
            return lambda labels: labels.get(key) in allowed
        case "NotIn":
            return lambda labels: labels.get(key) not in allowed
        case "Exists":
            return lambda labels: key in labels
        case _:
            return lambda labels: key not in labels
