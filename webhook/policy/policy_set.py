"""PolicySet: all policies that are in force, found by a pod's namespace and labels.

Immutable but for what it keeps of work that is done already, and free of I/O: a new set of policies is a new
PolicySet. An admission never walks over the policies of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from webhook.namespaces import Namespace
from webhook.policy import placeholders
from webhook.policy.compiled import CompiledPolicy, compile_policy
from webhook.policy.model import Policy

_MAX_CACHED_NAMESPACES = 10_000


class Conf(NamedTuple):
    """A pod's own requests (webhook.policy.requests): as a policy, and by role the labels that it wants."""

    policy: CompiledPolicy
    labels: Mapping[str, Mapping[str, str]]


class _NamespacePolicies:
    """The policies that concern a namespace, found by a pod's labels."""

    __slots__ = ("_by_label", "_others", "namespace")

    def __init__(self, namespace: Namespace, policies: Iterable[CompiledPolicy]) -> None:
        self.namespace = namespace
        self._by_label: dict[tuple[str, str], list[CompiledPolicy]] = {}
        self._others: list[CompiledPolicy] = []
        for policy in policies:
            if policy.anchor is not None:
                self._by_label.setdefault(policy.anchor, []).append(policy)
            else:
                self._others.append(policy)

    def matching(self, labels: Mapping[str, str]) -> list[CompiledPolicy]:
        found = [policy for policy in self._others if policy.matches is None or policy.matches(labels)]
        if self._by_label:
            before = len(found)
            for label in labels.items():
                for policy in self._by_label.get(label, ()):
                    if policy.matches is None or policy.matches(labels):
                        found.append(policy)
            if len(found) > before:
                found.sort(key=_precedence)
        return found


def _precedence(policy: CompiledPolicy) -> tuple[int, str, str]:
    return policy.precedence


class PolicySet:
    """All policies of an installation, in force together. Their order in the argument means nothing.

    Args:
        policies: compiled ones
        namespaces: what is known of namespaces, by name
        own_namespace: where the webhook itself runs; its pods are never touched
        allowed: guardrails that are lifted
        all_namespaces: `namespaces` has all of the cluster; else one that is not there has just its name
        before: the set that this one follows; what it worked out for namespaces that are as they were is kept
            if the policies are the same

    Attributes:
        conditional, delicate: some policy has conditions, or features after which the pod has to be looked at
        confs: what pods' own requests were compiled to, by their text (webhook.policy.requests)
        read_labels: the pod labels that selectors and placeholders read and some policy writes, with the
            values that it may write; None: one with a placeholder, so any
    """

    def __init__(
        self,
        policies: Iterable[CompiledPolicy],
        namespaces: Mapping[str, Namespace] | None = None,
        own_namespace: str = "spark-webhook",
        *,
        allowed: frozenset[str] = frozenset(),
        all_namespaces: bool = False,
        before: PolicySet | None = None,
    ) -> None:
        self.own_namespace = own_namespace
        self.allowed = allowed
        self.confs: dict[str, Conf] = {}
        self._policies = tuple(policies)
        self.conditional = any(policy.conditions is not None for policy in self._policies)
        self.delicate = any(policy.delicate for policy in self._policies)
        self._namespaces = namespaces or {}
        self._all_namespaces = all_namespaces
        self._cluster = [policy for policy in self._policies if policy.namespace is None]
        self._by_namespace: dict[str, list[CompiledPolicy]] = {}
        for policy in self._policies:
            if policy.namespace is not None:
                self._by_namespace.setdefault(policy.namespace, []).append(policy)
        self._cache: dict[str, _NamespacePolicies] = {}
        if before is None or before._policies != self._policies:
            self.read_labels = _read_labels(self._policies)
            return
        self.read_labels = before.read_labels
        for name, known in before._cache.items():
            if self._namespaces.get(name) is known.namespace:
                self._cache[name] = known

    def __len__(self) -> int:
        return len(self._policies)

    def knows(self, namespace: str) -> bool:
        """False for a namespace that should be known and is not (yet)."""
        return not self._all_namespaces or namespace in self._namespaces

    def namespace(self, name: str) -> Namespace:
        """What is known of a namespace; of an unknown one just its name."""
        return self._of(name).namespace

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[CompiledPolicy]:
        """The policies for a pod of this namespace with these labels, in order of precedence."""
        return self._of(namespace).matching(labels)

    def _of(self, name: str) -> _NamespacePolicies:
        found = self._cache.get(name)
        if found is None:
            namespace = self._namespaces.get(name) or Namespace(name)
            policies = [
                policy
                for policy in self._cluster
                if policy.namespaces is None or policy.namespaces(namespace.labels)
            ]
            policies += self._by_namespace.get(name, ())
            found = _NamespacePolicies(namespace, sorted(policies, key=_precedence))
            if len(self._cache) >= _MAX_CACHED_NAMESPACES:
                self._cache.clear()
            self._cache[name] = found
        return found


def compile_policies(
    policies: Iterable[Policy],
    namespaces: Mapping[str, Namespace] | None = None,
    own_namespace: str = "spark-webhook",
    allowed: frozenset[str] = frozenset(),
) -> PolicySet:
    """The set of valid policies (webhook.policy.load) with their namespaces."""
    return PolicySet(map(compile_policy, policies), namespaces, own_namespace, allowed=allowed)


def _read_labels(policies: Iterable[CompiledPolicy]) -> dict[str, frozenset[str] | None]:
    read: set[str] = set()
    written: dict[str, set[str]] = {}
    for policy in policies:
        read |= policy.reads
        for key, found in policy.writes.items():
            written.setdefault(key, set()).update(found)
    return {key: _known(written[key]) for key in read & set(written)}


def _known(values: set[str]) -> frozenset[str] | None:
    return None if any(map(placeholders.present, values)) else frozenset(values)
