"""What a feature step may ask for: ensure an item of a list or a key of a map, under stated conflict rules.

A change only says what should be there. `Plan` checks all changes of a feature against the pod and against
the features before it, and writes either all of them or none. Nothing here knows any single feature.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from webhook import defaults, spark
from webhook.pod import Json, ListKind, ListView, MapView, SparkPod
from webhook.reasons import Reason

MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object together (k8s.io/apimachinery, TotalAnnotationSizeLimitB)."""


def _never(_item: Json) -> bool:
    return False


def _stated_keys(have: Json, want: Json) -> Json:
    return {**have, **want}


def _merged_volume(have: Json, want: Json) -> Json:
    merged = {key: _merged_source(have[key], value) if key in have else value for key, value in want.items()}
    # Two sources in one volume are invalid: another kind of source takes the place of the author's.
    return {**have, **merged} if set(want) <= set(have) else want


def _merged_source(have: Any, want: Any) -> Any:
    if isinstance(have, dict) and isinstance(want, dict):
        return {**have, **{key: _merged_source(have.get(key), value) for key, value in want.items()}}
    return want


def _merged_mount(have: Json, want: Json) -> Json:
    # Another volume at this path: the author's subPath was meant for theirs.
    return {**have, **want} if have.get("name") == want["name"] else want


def _merged_env(have: Json, want: Json) -> Json:
    kept = {key: value for key, value in have.items() if key not in ("value", "valueFrom")}
    return {**kept, **want}


def _toleration_identity(item: Json) -> Hashable:
    return (
        item.get("key") or "",
        item.get("operator") or "Equal",
        item.get("value") or "",
        item.get("effect") or "",
    )


def _env_from_identity(item: Json) -> Hashable:
    kind = "configMapRef" if item.get("configMapRef") is not None else "secretRef"
    return (item.get("prefix") or "", kind, (item.get(kind) or {}).get("name"))


# Added by the DefaultTolerationSeconds admission plugin to every pod that does not say otherwise.
_DEFAULT_TOLERATIONS = frozenset(
    (f"node.kubernetes.io/{state}", "Exists", "", "NoExecute") for state in ("not-ready", "unreachable")
)

VOLUMES = ListKind(
    field="volumes",
    identity=lambda item: item["name"],
    canonical=defaults.volume,
    owned=lambda item: spark.own_volume(item["name"]) is not None,
    filled_in=_never,
    merged=_merged_volume,
    in_container=False,
)
TOLERATIONS = ListKind(
    field="tolerations",
    identity=_toleration_identity,
    canonical=lambda item: item.get("tolerationSeconds"),
    owned=_never,
    filled_in=lambda item: (
        item.get("tolerationSeconds") == 300 and _toleration_identity(item) in _DEFAULT_TOLERATIONS
    ),
    merged=_stated_keys,
    in_container=False,
)
PULL_SECRETS = ListKind(
    field="imagePullSecrets",
    identity=lambda item: item.get("name"),
    canonical=defaults.plain,
    owned=_never,
    filled_in=_never,
    merged=_stated_keys,
    in_container=False,
)
MOUNTS = ListKind(
    field="volumeMounts",
    identity=lambda item: defaults.mount_path(item["mountPath"]),
    canonical=defaults.mount,
    owned=lambda item: (
        spark.own_path(defaults.mount_path(item["mountPath"])) is not None
        or spark.own_volume(item.get("name") or "") is not None
    ),
    filled_in=_never,
    merged=_merged_mount,
    in_container=True,
)
ENV = ListKind(
    field="env",
    identity=lambda item: item["name"],
    canonical=defaults.plain,
    owned=lambda item: spark.own_env(item["name"]) is not None,
    filled_in=_never,
    merged=_merged_env,
    in_container=True,
)
ENV_FROM = ListKind(
    field="envFrom",
    identity=_env_from_identity,
    canonical=defaults.plain,
    owned=_never,
    filled_in=_never,
    merged=lambda have, want: {
        **have,
        **{key: _merged_source(have.get(key), value) for key, value in want.items()},
    },
    in_container=True,
)


class View(Protocol):
    """What a change is checked against: a ListView or a MapView."""

    path: str
    claims: dict[Hashable, Any]


class Edit(Protocol):
    """One change that was found possible, ready to be written."""

    def write(self) -> None:
        """Write it; it can't fail any more."""


class Change(Protocol):
    """One thing that should be there."""

    def check(self, plan: Plan) -> Refusal | None:
        """Add to the plan's edits what has to be written, or say why it can't be."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a change can't be made. `path` is the JSON Pointer of the list or map, "" if none is concerned."""

    reason: Reason
    path: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A feature has decided an identity. `want` is compared with what later features want there.

    firm: what stands there must not be changed by anybody later, even to the same wish: a feature that goes
    first was refused on account of it. `join`: others may join further text to it.
    """

    feature: str
    want: Any
    firm: bool = False
    join: bool = False


@dataclass(frozen=True, slots=True)
class _Write:
    view: ListView
    identity: Hashable
    item: Json
    is_new: bool

    def write(self) -> None:
        if not self.is_new:
            self.view.replace(self.identity, self.item)
        elif self.view.kind is ENV:
            self.view.add_before_use(str(self.identity), self.item)
        else:
            self.view.add(self.identity, self.item)


@dataclass(frozen=True, slots=True)
class _Put:
    view: MapView
    key: str
    value: str

    def write(self) -> None:
        self.view.put(self.key, self.value)


class Plan:
    """The changes of one feature (or of one atomic policy) against one pod: checked first, then written.

    Args:
        pod: the pod as it is after the features before this one

    Attributes:
        replacing: features that take the place of a value of the author's
    """

    __slots__ = ("_claims", "_edits", "feature", "on_conflict", "pod", "replacing")

    def __init__(self, pod: SparkPod) -> None:
        self.pod = pod
        self.feature = ""
        self.on_conflict = "Keep"
        self.replacing: set[str] = set()
        self._edits: list[Edit] = []
        self._claims: dict[tuple[View, Hashable], Claim] = {}

    def check(self, feature: str, on_conflict: str, changes: Sequence[Change]) -> Refusal | None:
        """Check the changes of a feature; the edits and claims are kept until `write` or `refuse`."""
        self.feature, self.on_conflict = feature, on_conflict
        for change in changes:
            refusal = change.check(self)
            if refusal is not None:
                return refusal
        return None

    def write(self) -> None:
        """Write all edits; from now on what was checked is decided."""
        for edit in self._edits:
            edit.write()
        for (view, identity), claim in self._claims.items():
            view.claims[identity] = claim

    def refuse(self) -> None:
        """Write nothing. What was asked for stays claimed, so that a second pass decides the same.

        Without that, a later feature could put something at a refused feature's place, and in the next pass
        (reinvocation) the refused one would meet it and report another reason.
        """
        for (view, identity), claim in self._claims.items():
            view.claims.setdefault(identity, claim)

    def label_changes(self) -> list[tuple[str, str | None]]:
        """The labels that `write` would change, with their values before."""
        return [
            (edit.key, edit.view.get(edit.key))
            for edit in self._edits
            if isinstance(edit, _Put) and edit.view is self.pod.map("labels")
        ]

    def edit(self, view: View, identity: Hashable, edit: Edit | None, claim: Claim) -> None:
        """Keep an edit (None: nothing to write) and the claim that goes with it."""
        if edit is not None:
            self._edits.append(edit)
        self._claims[view, identity] = claim

    def claim_on(self, view: View, identity: Hashable) -> Claim | None:
        """What an earlier feature, or this plan itself, has decided there."""
        return self._claims.get((view, identity)) or view.claims.get(identity)

    def holds(self, view: View, identity: Hashable) -> bool:
        """True if this plan itself will write the identity."""
        return (view, identity) in self._claims

    def contradicted(self, view: View, identity: Hashable, reason: Reason) -> Refusal:
        """The value there is somebody's and stays: the identity is decided for good."""
        self._claims[view, identity] = Claim(self.feature, None, firm=True)
        return Refusal(reason, view.path)

    def conflict(self, view: View, identity: Hashable) -> Refusal | None:
        """Apply onConflict to a value of the author's; None: it may be replaced."""
        if self.on_conflict == "Replace":
            self.replacing.add(self.feature)
            return None
        reason = Reason.CONFLICT_REJECTED if self.on_conflict == "Reject" else Reason.CONFLICT_KEPT
        return self.contradicted(view, identity, reason)


class EnsureItem:
    """An item should be in a list of the pod, or of the stated containers.

    Args:
        kind: which list
        item: the item as Kubernetes has it; never changed afterwards
        containers: `Spark`, `All` or names, for a container's list
        owned_reason: what it is called when Spark's own item stands in the way
    """

    __slots__ = ("_canonical", "containers", "identity", "item", "kind", "owned_reason")

    def __init__(
        self,
        kind: ListKind,
        item: Json,
        containers: str | Sequence[str] = "Spark",
        owned_reason: Reason = Reason.SPARK_OWNS,
    ) -> None:
        self.kind = kind
        self.item = item
        self.containers = containers
        self.owned_reason = owned_reason
        self.identity = kind.identity(item)
        self._canonical = kind.canonical(item)

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        if not self.kind.in_container:
            return self._check(plan, plan.pod.list(self.kind))
        targets = plan.pod.targets(self.containers)
        if targets is None:
            spark_only = self.containers == "Spark"
            return Refusal(Reason.SPARK_CONTAINER_NOT_FOUND if spark_only else Reason.CONTAINER_NOT_FOUND)
        for container in targets:
            refusal = self._check(plan, container.list(self.kind))
            if refusal is not None:
                return refusal
        return None

    def _check(self, plan: Plan, view: ListView) -> Refusal | None:
        identity = self.identity
        claim = plan.claim_on(view, identity)
        if claim is not None and (claim.firm or claim.join or claim.want != self._canonical):
            return Refusal(Reason.POLICY_CONFLICT, view.path, claim.feature)
        mine = Claim(plan.feature, self._canonical)
        have = view.get(identity)
        if have is None:
            if not plan.holds(view, identity):
                plan.edit(view, identity, _Write(view, identity, self.item, True), mine)
            return None
        if self._is(have):
            plan.edit(view, identity, None, mine)
            return None
        if self.kind.owned(have):
            return plan.contradicted(view, identity, self.owned_reason)
        merged = self.kind.merged(have, self.item)
        if not self.kind.filled_in(have):
            if plan.on_conflict == "Replace" and self.kind.canonical(merged) == self.kind.canonical(have):
                plan.edit(view, identity, None, mine)
                return None
            refusal = plan.conflict(view, identity)
            if refusal is not None:
                return refusal
        plan.edit(view, identity, _Write(view, identity, merged, False), mine)
        return None

    def _is(self, have: Json) -> bool:
        return bool(have == self.item or self.kind.canonical(have) == self._canonical)


class JoinEnv:
    """A text should be part of an environment variable, joined to what the author has, once only.

    Args:
        name: of the variable
        value: the text to join
        separator: between the author's text and ours
        containers: `Spark`, `All` or names
    """

    __slots__ = ("containers", "name", "separator", "value")

    def __init__(
        self, name: str, value: str, separator: str, containers: str | Sequence[str] = "Spark"
    ) -> None:
        self.name = name
        self.value = value
        self.separator = separator
        self.containers = containers

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        targets = plan.pod.targets(self.containers)
        if targets is None:
            spark_only = self.containers == "Spark"
            return Refusal(Reason.SPARK_CONTAINER_NOT_FOUND if spark_only else Reason.CONTAINER_NOT_FOUND)
        for container in targets:
            refusal = self._check(plan, container.list(ENV))
            if refusal is not None:
                return refusal
        return None

    def _check(self, plan: Plan, view: ListView) -> Refusal | None:
        claim = plan.claim_on(view, self.name)
        if claim is not None and not claim.join:
            return Refusal(Reason.POLICY_CONFLICT, view.path, claim.feature)
        mine = Claim(plan.feature, None, join=True)
        have = view.get(self.name)
        if have is None:
            plan.edit(
                view, self.name, _Write(view, self.name, {"name": self.name, "value": self.value}, True), mine
            )
            return None
        if ENV.owned(have):
            return plan.contradicted(view, self.name, Reason.SPARK_OWNS)
        if have.get("valueFrom"):
            return plan.contradicted(view, self.name, Reason.NOT_JOINABLE)
        value = self._joined(have.get("value") or "")
        edit = None if value is None else _Write(view, self.name, {**have, "value": value}, False)
        plan.edit(view, self.name, edit, mine)
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

    __slots__ = ("field", "key", "value")

    def __init__(self, field: str, key: str, value: str) -> None:
        self.field = field
        self.key = key
        self.value = value

    def check(self, plan: Plan) -> Refusal | None:
        """See Change.check."""
        view = plan.pod.map(self.field)
        claim = plan.claim_on(view, self.key)
        if claim is not None and (claim.firm or claim.want != self.value):
            return Refusal(Reason.POLICY_CONFLICT, view.path, claim.feature)
        mine = Claim(plan.feature, self.value)
        have = view.get(self.key)
        if have == self.value:
            plan.edit(view, self.key, None, mine)
            return None
        if have is not None:
            if self.field == "labels" and spark.own_label(self.key):
                return plan.contradicted(view, self.key, Reason.SPARK_OWNS)
            refusal = plan.conflict(view, self.key)
            if refusal is not None:
                return refusal
        if self.field == "annotations" and view.size_with(self.key, self.value) > MAX_ANNOTATIONS:
            return Refusal(Reason.ANNOTATIONS_TOO_LARGE, view.path)
        plan.edit(view, self.key, _Put(view, self.key, self.value), mine)
        return None
