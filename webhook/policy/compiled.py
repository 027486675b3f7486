"""The compiled policy set: all that can be decided before a pod comes is decided here, at load.

Immutable and free of I/O: a new set of policies is a new PolicySet. An admission looks up the policies of
its namespace and labels and never walks over those of the whole cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from webhook import spark
from webhook.changes import Change
from webhook.namespaces import Namespace
from webhook.policy import placeholders, selectors
from webhook.policy.model import OnConflict, Policy, RoleBlock
from webhook.policy.values import FILLED
from webhook.steps import STEPS
from webhook.steps.base import Entry, Step

_ROLES = (spark.DRIVER, spark.EXECUTOR)
_MAX_CACHED_NAMESPACES = 10_000
# The pods of one application mostly fill in the same values: what they make of a feature is kept.
_MAX_FILLED = 256


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One item of a policy, for one role.

    Attributes:
        id: `<policy> <field>`, unique in the set
        field: where the policy states it (`common.env[2]`)
        subject: how messages name it
        on_conflict: `Keep`, `Replace` or `Reject`
        softened: the policy says Reject, but an executor is not denied for it
        static: what it asks for, if there is no placeholder in it
    """

    id: str
    field: str
    subject: str
    on_conflict: str
    softened: bool
    static: Sequence[Change] | None
    _step: Step
    _item: type[BaseModel] | Entry
    _raw: Any
    _placeholders: tuple[tuple[str, str], ...]
    _memo: dict[tuple[str | None, ...], Sequence[Change]] = dataclass_field(default_factory=dict)

    def filled(self, lookup: placeholders.Lookup) -> Sequence[Change]:
        """What the feature asks for, with the placeholders filled in.

        Raises:
            placeholders.MissingValue: a placeholder has no value
            ValueError: with its placeholders filled in the item is not valid; the text holds no value
        """
        values = tuple([lookup(name, key) for name, key in self._placeholders])
        changes = self._memo.get(values)
        if changes is None:
            changes = self._fill(lookup)
            if len(self._memo) >= _MAX_FILLED:
                self._memo.clear()
            self._memo[values] = changes
        return changes

    def _fill(self, lookup: placeholders.Lookup) -> Sequence[Change]:
        filled = placeholders.fill(self._raw, lookup)
        if isinstance(self._item, Entry):
            return _asked(self.id, self._step.changes(Entry(self._item.key, filled)))
        try:
            item = self._item.model_validate(filled, context=FILLED)
            return _asked(self.id, self._step.changes(item))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPolicy:
    """A policy ready to be applied.

    Attributes:
        name: `name` of a cluster policy, `namespace/name` of a namespaced one
        short_name: the name alone, as the exclude annotation gives it
        hash: of the whole spec: another content has another hash
        order: position among all policies; the first ones win
        features: by role, in the order of the steps
        applied: by role, the status entry if all features are in effect, as JSON
        applied_count: the same, with their number instead of their names
    """

    name: str
    short_name: str
    hash: str
    order: int
    mandatory: bool
    atomic: bool
    matches: selectors.Matches | None
    anchor: tuple[str, str] | None
    features: Mapping[str, tuple[Feature, ...]]
    applied: Mapping[str, bytes]
    applied_count: Mapping[str, bytes]


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
                found.sort(key=_order)
        return found


def _order(policy: CompiledPolicy) -> int:
    return policy.order


class PolicySet:
    """All policies of an installation. Make one with `compile_policies`.

    Attributes:
        own_namespace: where the webhook itself runs; its pods are never touched
        read_labels: the pod labels that selectors and placeholders read and some policy writes, with the
            values that it may write; None: one with a placeholder, so any
    """

    def __init__(
        self,
        cluster: Sequence[tuple[selectors.Matches | None, CompiledPolicy]],
        by_namespace: Mapping[str, Sequence[CompiledPolicy]],
        namespaces: Mapping[str, Namespace],
        read_labels: Mapping[str, frozenset[str] | None],
        own_namespace: str,
    ) -> None:
        self.own_namespace = own_namespace
        self.read_labels = read_labels
        self._cluster = cluster
        self._by_namespace = by_namespace
        self._namespaces = namespaces
        self._cache: dict[str, _NamespacePolicies] = {}

    def __len__(self) -> int:
        return len(self._cluster) + sum(map(len, self._by_namespace.values()))

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
                policy for matches, policy in self._cluster if matches is None or matches(namespace.labels)
            ]
            policies += self._by_namespace.get(name, ())
            found = _NamespacePolicies(namespace, sorted(policies, key=_order))
            if len(self._cache) >= _MAX_CACHED_NAMESPACES:
                self._cache.clear()
            self._cache[name] = found
        return found


def compile_policies(
    policies: Iterable[Policy],
    namespaces: Mapping[str, Namespace] | None = None,
    own_namespace: str = "spark-webhook",
) -> PolicySet:
    """Compile policies for admissions. Their order in the argument means nothing.

    Args:
        policies: valid policies (webhook.policy.load)
        namespaces: what is known of namespaces, by name
        own_namespace: where the webhook runs
    """
    ordered = sorted(
        policies, key=lambda policy: (-policy.spec.priority, policy.namespace or "", policy.name)
    )
    cluster: list[tuple[selectors.Matches | None, CompiledPolicy]] = []
    by_namespace: dict[str, list[CompiledPolicy]] = {}
    read: set[str] = set()
    written: dict[str, set[str]] = {}
    for order, policy in enumerate(ordered):
        compiled = _compile(policy, order)
        if policy.namespace is None:
            cluster.append((selectors.compile_selector(policy.spec.match.namespaceSelector), compiled))
        else:
            by_namespace.setdefault(policy.namespace, []).append(compiled)
        read |= selectors.keys(policy.spec.match.podSelector) | _read_labels(policy)
        for block in (policy.spec.common, policy.spec.driver, policy.spec.executor):
            for key, value in block.labels.items():
                written.setdefault(key, set()).add(value)
    read_labels = {key: _known(written[key]) for key in read & set(written)}
    return PolicySet(cluster, by_namespace, namespaces or {}, read_labels, own_namespace)


def _known(values: set[str]) -> frozenset[str] | None:
    return None if any(map(placeholders.present, values)) else frozenset(values)


def _compile(policy: Policy, order: int) -> CompiledPolicy:
    spec = policy.spec
    name = policy.name if policy.namespace is None else f"{policy.namespace}/{policy.name}"
    content = orjson.dumps(spec.model_dump(exclude_unset=True, mode="json"), option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(content).hexdigest()[:8]
    features = {role: tuple(_features(policy, name, role)) for role in _ROLES}

    def entry(applied: Any) -> bytes:
        return orjson.dumps({"name": name, "hash": digest, "applied": applied})

    return CompiledPolicy(
        name=name,
        short_name=policy.name,
        hash=digest,
        order=order,
        mandatory=spec.mandatory,
        atomic=spec.atomic,
        matches=selectors.compile_selector(spec.match.podSelector),
        anchor=selectors.anchor(spec.match.podSelector),
        features=features,
        applied={role: entry([item.subject for item in items]) for role, items in features.items()},
        applied_count={role: entry(len(items)) for role, items in features.items()},
    )


def _features(policy: Policy, name: str, role: str) -> Iterable[Feature]:
    own: RoleBlock = getattr(policy.spec, role)
    for step in STEPS:
        # Within one block items of one identity are for different containers (lint), so all of them count.
        ours = list(_items(step, own))
        taken = {step.identity(item) for _, item in ours}
        for at, item in _items(step, policy.spec.common):
            if step.identity(item) not in taken:  # else the role's item wins
                where = f"common.{step.field}{at}"
                yield _feature(policy, f"{name} {where}", role, step, (where, item))
        for at, item in ours:
            where = f"{role}.{step.field}{at}"
            yield _feature(policy, f"{name} {where}", role, step, (where, item))


def _items(step: Step, block: RoleBlock) -> Iterable[tuple[str, Any]]:
    return step.items(getattr(block, step.field))


def _feature(policy: Policy, feature_id: str, role: str, step: Step, item_at: tuple[str, Any]) -> Feature:
    where, item = item_at
    stated = getattr(item, "onConflict", None) or policy.spec.onConflict
    softened = stated is OnConflict.REJECT and role == spark.EXECUTOR and not policy.spec.mandatory
    raw = item.value if isinstance(item, Entry) else item.model_dump(exclude_unset=True)
    found = tuple(dict.fromkeys(placeholders.names(raw)))
    return Feature(
        id=feature_id,
        field=where,
        subject=step.subject(item),
        on_conflict=(OnConflict.KEEP if softened else stated).value,
        softened=softened,
        static=None if found else _asked(feature_id, step.changes(item)),
        _step=step,
        _item=item if isinstance(item, Entry) else type(item),
        _raw=raw,
        _placeholders=tuple(place for place in found if place[0]),
    )


def _asked(feature_id: str, changes: Sequence[Change]) -> Sequence[Change]:
    for change in changes:
        change.feature = feature_id
    return changes


def _read_labels(policy: Policy) -> set[str]:
    dumped = policy.spec.model_dump(exclude_unset=True, mode="json")
    return {key for name, key in placeholders.names(dumped) if name == "POD_LABEL"}
