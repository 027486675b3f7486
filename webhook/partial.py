"""A part of a pod's spec or of a container as changes: which rule holds for which field.

The tables below are the merge rules of the whole project: what is a list with identities, what is merged key
by key, and what counts only as a whole (everything else). They must never decide for a single feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webhook import kinds
from webhook.changes import EnsureItem, EnsureKey
from webhook.fields import EnsureField
from webhook.kinds import Json, ListKind
from webhook.node_affinity import RequireNodes
from webhook.plan import Change
from webhook.pod import Exactly
from webhook.volume_needs import NeedVolume

Names = str | Sequence[str] | Exactly

KEYS = "merged key by key"
"""A map: every key is a field of its own."""

_SELINUX = {"seLinuxOptions": KEYS}
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _pod_terms(field: str) -> Mapping[str, Any]:
    return {key: kinds.values("affinity", field, key) for key in (_TERMS, _PREFERRED)}


SPEC: Mapping[str, Any] = {
    "volumes": kinds.VOLUMES,
    "tolerations": kinds.TOLERATIONS,
    "imagePullSecrets": kinds.PULL_SECRETS,
    "hostAliases": kinds.HOST_ALIASES,
    "topologySpreadConstraints": kinds.SPREAD_CONSTRAINTS,
    "readinessGates": kinds.READINESS_GATES,
    "schedulingGates": kinds.SCHEDULING_GATES,
    "resourceClaims": kinds.RESOURCE_CLAIMS,
    "nodeSelector": KEYS,
    "overhead": KEYS,
    "resources": {"requests": KEYS, "limits": KEYS},
    "securityContext": {
        **_SELINUX,
        "windowsOptions": KEYS,
        "supplementalGroups": kinds.values("securityContext", "supplementalGroups"),
        "sysctls": kinds.SYSCTLS,
    },
    "dnsConfig": {
        "nameservers": kinds.NAMESERVERS,
        "searches": kinds.SEARCHES,
        "options": kinds.DNS_OPTIONS,
    },
    "affinity": {
        "nodeAffinity": {
            _TERMS: RequireNodes,
            _PREFERRED: kinds.values("affinity", "nodeAffinity", _PREFERRED),
        },
        "podAffinity": _pod_terms("podAffinity"),
        "podAntiAffinity": _pod_terms("podAntiAffinity"),
    },
}
"""Fields of a pod's spec: a kind of list, KEYS, or a table of the object's fields; others are one value."""

CONTAINER: Mapping[str, Any] = {
    "env": kinds.ENV,
    "envFrom": kinds.ENV_FROM,
    "volumeMounts": kinds.MOUNTS,
    "volumeDevices": kinds.VOLUME_DEVICES,
    "ports": kinds.PORTS,
    "resources": {"requests": KEYS, "limits": KEYS, "claims": kinds.CONTAINER_CLAIMS},
    "lifecycle": KEYS,
    "securityContext": {
        **_SELINUX,
        "windowsOptions": KEYS,
        "capabilities": {
            "add": kinds.values("securityContext", "capabilities", "add", in_container=True),
            "drop": kinds.values("securityContext", "capabilities", "drop", in_container=True),
        },
    },
}
"""Fields of a container, as SPEC has those of a spec."""

_NAMED_CONTAINERS = frozenset({"containers", "initContainers"})


def of_spec(spec: Json) -> list[Change]:
    """A part of a pod's spec as changes; its containers are not looked at (webhook.containers)."""
    stated = {key: value for key, value in spec.items() if key not in _NAMED_CONTAINERS}
    return list(_changes(stated, SPEC, (), None))


def of_container(container: Json, containers: Names) -> list[Change]:
    """A part of a container as changes of the stated containers; its name is not one of them."""
    stated = {key: value for key, value in container.items() if key != "name"}
    return list(_changes(stated, CONTAINER, (), containers))


def _changes(
    stated: Json, table: Mapping[str, Any], within: tuple[str, ...], containers: Names | None
) -> Iterator[Change]:
    for key, value in stated.items():
        rule, path = table.get(key), (*within, key)
        if rule is RequireNodes:
            yield RequireNodes(value)
        elif isinstance(rule, ListKind):
            yield from _items(rule, value, containers)
        elif isinstance(rule, Mapping):
            yield from _changes(value, rule, path, containers)
        elif rule is KEYS and path == ("nodeSelector",):
            yield from (EnsureKey("nodeSelector", name, text) for name, text in value.items())
        elif rule is KEYS:
            yield from (EnsureField((*path, name), inner, containers) for name, inner in value.items())
        else:
            yield EnsureField(path, value, containers)


def _items(kind: ListKind, items: Sequence[Any], containers: Names | None) -> Iterator[Change]:
    for item in items:
        if kind in (kinds.MOUNTS, kinds.VOLUME_DEVICES):
            yield NeedVolume(item["name"])
        yield EnsureItem(kind, item, "Spark" if containers is None else containers)
