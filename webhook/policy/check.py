"""One policy document, from a file or the cluster: the checked policy, or everything that is wrong with it.

It never raises for what a document holds, and never shows a value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from webhook.policy import lint, messages, places, positions
from webhook.policy.model import Policy
from webhook.policy.positions import MAX_DEPTH, Fault, Node, Path


def check(
    node: Node, allowed: frozenset[str], syntax: Collection[Path] = ()
) -> tuple[Policy | None, list[Fault]]:
    """The policy, or None and the faults that forbid it.

    Args:
        allowed: guardrails that are lifted for namespaced policies
        syntax: paths that are known to be wrong already: nothing more is said about them
    """
    found = [fault for fault in lint.empty(node) if fault.path not in syntax]
    known = {*syntax, *(fault.path for fault in found)}
    found += lint.errors(node, allowed)
    try:
        policy = Policy.model_validate(node.value)
    except ValidationError as error:
        return None, found + [fault for fault in messages.faults(error, node) if fault.path not in known]
    if not found:
        found = list(places.doubled(node, policy))
    return (None if found or syntax else policy), found


def check_object(item: dict[str, Any], allowed: frozenset[str]) -> tuple[Policy | None, tuple[str, ...]]:
    """The policy of an object of the cluster, or None and what forbids it, as `path: message`."""
    try:
        node = _node(item, MAX_DEPTH)
    except _TooDeep:
        return None, (f"nested too deeply: more than {MAX_DEPTH} levels",)
    policy, faults = check(node, allowed)
    said = (f"{positions.show(fault.path)}: {positions.printable(fault.message)}" for fault in faults)
    return policy, tuple(dict.fromkeys(said))


class _TooDeep(Exception):
    pass


def _node(value: Any, depth: int) -> Node:
    """A value without a place: line and column are 0."""
    if not depth:
        raise _TooDeep
    if isinstance(value, dict):
        return Node(value, 0, 0, {key: (0, 0, _node(inner, depth - 1)) for key, inner in value.items()})
    if isinstance(value, list):
        return Node(value, 0, 0, [_node(inner, depth - 1) for inner in value])
    return Node(value, 0, 0)
