"""A policy ready to be applied: all that can be decided before a pod comes is decided here, at load.

Immutable and free of I/O. It must never look at a pod, nor at another policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from webhook import spark, validity
from webhook.changes import EnsureItem
from webhook.containers import EnsureContainer
from webhook.kinds import VOLUMES
from webhook.plan import Change
from webhook.pod import NOTHING_INJECTED, Injected
from webhook.policy import grammar, placeholders, selectors
from webhook.policy.conditions import Conditions, compile_conditions
from webhook.policy.grammar import Wish
from webhook.policy.items import OnConflict
from webhook.policy.model import Policy
from webhook.policy.role_block import RoleBlock
from webhook.policy.values import FILLED
from webhook.steps import STEPS
from webhook.steps.base import Entry, Step
from webhook.volume_needs import NeedVolume

_ROLES = (spark.DRIVER, spark.EXECUTOR)
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
        delicate: it may make the pod invalid together with what else is there (webhook.validity)
    """

    id: str
    field: str
    subject: str
    on_conflict: str
    softened: bool
    static: Sequence[Change] | None
    delicate: bool
    _step: Step
    _item: type[BaseModel] | Entry
    _raw: Any
    _placeholders: tuple[tuple[str, str], ...]
    _unfilled: Sequence[Change]
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

    def wishes(self) -> Sequence[Change]:
        """What it asks for, with placeholders as they are written; nothing if that can't be told."""
        return self._unfilled

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
        namespace: the only one it is for; None: those that `namespaces` matches
        namespaces: the namespace selector; None: all
        precedence: the lowest one wins
        conditions: what else must be true of a pod; None: nothing
        features: by role, in the order of the steps
        applied: by role, the status entry if all features are in effect, as JSON
        applied_count: the same, with their number instead of their names
        reads: the pod labels that its selector, its conditions and its placeholders read
        writes: the labels that it writes, with the values; one with a placeholder is any
        injects: by role, the containers and volumes that it adds
        reads_others: the roles for which it has features that look for what other policies may inject
        delicate: the roles for which it has features after which the pod has to be looked at
    """

    name: str
    short_name: str
    hash: str
    namespace: str | None
    namespaces: selectors.Matches | None
    precedence: tuple[int, str, str]
    mandatory: bool
    atomic: bool
    matches: selectors.Matches | None
    conditions: Conditions | None
    anchor: tuple[str, str] | None
    features: Mapping[str, tuple[Feature, ...]]
    applied: Mapping[str, bytes]
    applied_count: Mapping[str, bytes]
    reads: frozenset[str]
    writes: Mapping[str, frozenset[str]]
    injects: Mapping[str, Injected]
    reads_others: frozenset[str]
    delicate: frozenset[str]


def compile_policy(policy: Policy) -> CompiledPolicy:
    """All of a valid policy that can be decided without a pod and without other policies."""
    name = policy.name if policy.namespace is None else f"{policy.namespace}/{policy.name}"
    found = grammar.read(policy.spec.sparkConf)
    return compile_wishes(policy, name, [wish for wish in found if isinstance(wish, Wish)])


def compile_wishes(policy: Policy, name: str, wishes: Sequence[Wish]) -> CompiledPolicy:
    """The same, with what keys of Spark's grammar ask for beside the blocks of the policy."""
    spec = policy.spec
    dumped = spec.model_dump(exclude_unset=True, mode="json")
    digest = hashlib.sha256(orjson.dumps(dumped, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    features = {role: tuple(_features(policy, name, role, wishes)) for role in _ROLES}
    conditions = compile_conditions(spec.match.conditions)
    writes: dict[str, set[str]] = {}
    for block in (spec.common, spec.driver, spec.executor, *(wish.block for wish in wishes)):
        for key, value in block.written_labels():
            writes.setdefault(key, set()).add(value)

    def entry(applied: Any) -> bytes:
        return orjson.dumps({"name": name, "hash": digest, "applied": applied})

    return CompiledPolicy(
        name=name,
        short_name=policy.name,
        hash=digest,
        namespace=policy.namespace,
        namespaces=selectors.compile_selector(spec.match.namespaceSelector),
        precedence=(-spec.priority, policy.namespace or "", policy.name),
        mandatory=spec.mandatory,
        atomic=spec.atomic,
        matches=selectors.compile_selector(spec.match.podSelector),
        conditions=conditions,
        anchor=selectors.anchor(spec.match.podSelector),
        features=features,
        applied={role: entry([item.subject for item in items]) for role, items in features.items()},
        applied_count={role: entry(len(items)) for role, items in features.items()},
        reads=frozenset(
            selectors.keys(spec.match.podSelector)
            | (conditions.labels if conditions else frozenset())
            | {key for kind, key in placeholders.names(dumped) if kind == "POD_LABEL"}
        ),
        writes={key: frozenset(values) for key, values in writes.items()},
        injects={role: _injects(items) for role, items in features.items()},
        reads_others=frozenset(role for role, items in features.items() if _reads_others(items)),
        delicate=frozenset(role for role, items in features.items() if any(item.delicate for item in items)),
    )


def injected(policies: Sequence[CompiledPolicy], role: str) -> Injected:
    """What these policies may add to a pod, as far as any of them has to know."""
    if not any(role in policy.reads_others for policy in policies):
        return NOTHING_INJECTED
    each = [policy.injects[role] for policy in policies]
    return Injected(
        frozenset().union(*(one.containers for one in each)),
        frozenset().union(*(one.volumes for one in each)),
    )


def _injects(features: Iterable[Feature]) -> Injected:
    changes = [change for feature in features for change in feature.wishes()]
    return Injected(
        frozenset(change.name for change in changes if isinstance(change, EnsureContainer)),
        frozenset(
            change.item["name"]
            for change in changes
            if isinstance(change, EnsureItem) and change.place[0] is VOLUMES
        ),
    )


def _reads_others(features: Iterable[Feature]) -> bool:
    return any(
        isinstance(change, EnsureContainer | NeedVolume)
        for feature in features
        for change in feature.wishes()
    )


def _features(policy: Policy, name: str, role: str, wishes: Sequence[Wish]) -> Iterable[Feature]:
    own: RoleBlock = getattr(policy.spec, role)
    asked = [wish for wish in wishes if wish.role in ("", role)]
    blocks = (policy.spec.common, own, *(wish.block for wish in asked))
    stated = frozenset().union(*(block.model_fields_set for block in blocks))
    for step in STEPS:
        if step.field not in stated:
            continue
        # Within one block items of one identity are for different containers (lint), so all of them count.
        shared = [(f"common.{step.field}{at}", item) for at, item in _items(step, policy.spec.common)]
        ours = [(f"{role}.{step.field}{at}", item) for at, item in _items(step, own)]
        for wish in asked:
            items = ours if wish.role else shared
            items += [(f"sparkConf[{wish.key}]", item) for _, item in _items(step, wish.block)]
        taken = {step.identity(item) for _, item in ours}
        # The role's item wins over that of both roles.
        kept = [(where, item) for where, item in shared if step.identity(item) not in taken]
        for where, item in (*kept, *ours):
            yield _feature(policy, f"{name} {where}", role, step, (where, item))


def _items(step: Step, block: RoleBlock) -> Iterable[tuple[str, Any]]:
    return step.items(getattr(block, step.field))


def _feature(policy: Policy, feature_id: str, role: str, step: Step, item_at: tuple[str, Any]) -> Feature:
    where, item = item_at
    stated = getattr(item, "onConflict", None) or policy.spec.onConflict
    softened = stated is OnConflict.REJECT and role == spark.EXECUTOR and not policy.spec.mandatory
    raw = item.value if isinstance(item, Entry) else item.model_dump(exclude_unset=True)
    found = tuple(dict.fromkeys(placeholders.names(raw)))
    changes = _asked(feature_id, _unfilled(step, item))
    return Feature(
        id=feature_id,
        field=where,
        subject=step.subject(item),
        on_conflict=(OnConflict.KEEP if softened else stated).value,
        softened=softened,
        static=None if found else changes,
        delicate=validity.delicate(changes),
        _step=step,
        _item=item if isinstance(item, Entry) else type(item),
        _raw=raw,
        _placeholders=tuple(place for place in found if place[0]),
        _unfilled=changes,
    )


def _unfilled(step: Step, item: Any) -> Sequence[Change]:
    """What an item asks for, with placeholders as they are written; nothing if that can't be told."""
    try:
        return step.changes(item)
    except ValueError:
        return ()


def _asked(feature_id: str, changes: Sequence[Change]) -> Sequence[Change]:
    for change in changes:
        change.feature = feature_id
    return changes
