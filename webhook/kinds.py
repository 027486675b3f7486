"""The lists of a pod whose items have an identity: what makes two items the same one, and the rules for them.

Every rule is a pure function of items. It must never know a policy, nor where in a pod an item stands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from webhook import defaults, spark

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ListKind:
    """A list of the pod whose items have an identity, and the rules for its items.

    Attributes:
        field: name of the list in its parent (spec or a container)
        identity: item -> identity within the list
        canonical: item -> form for comparing, Kubernetes' defaults filled in
        owned: item -> True if Spark or Kubernetes made it and nobody else may change it
        filled_in: item -> True if Kubernetes, and not the author, chose its value
        merged: (item of the pod, item wanted) -> what stands there once the wanted one has replaced it
        in_container: the list is a container's, not the pod's
        within: the objects between spec or container and the list
        read_in_order: an item must come before those that refer to it
        joined: (item of the pod, item wanted) -> both in one, for kinds whose items never compete
        unique: another field that no two items may share
        limit: how many items Kubernetes allows
    """

    field: str
    identity: Callable[[Any], Hashable]
    canonical: Callable[[Any], Any]
    owned: Callable[[Json], bool]
    filled_in: Callable[[Json], bool]
    merged: Callable[[Json, Json], Json]
    in_container: bool
    read_in_order: bool = False
    within: tuple[str, ...] = ()
    joined: Callable[[Json, Json], Json] | None = None
    unique: str | None = None
    limit: int | None = None


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
    identity=itemgetter("name"),
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
    identity=itemgetter("name"),
    canonical=defaults.plain,
    owned=lambda item: spark.own_env(item["name"]) is not None,
    filled_in=_never,
    merged=_merged_env,
    in_container=True,
    read_in_order=True,
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


def _keyed(field: str, *keys: str, within: tuple[str, ...] = (), in_container: bool = False) -> ListKind:
    """A list whose items are the same one if these fields are equal; a stated field replaces the author's."""
    return ListKind(
        field=field,
        identity=lambda item: tuple([item.get(key) for key in keys]),
        canonical=defaults.plain,
        owned=_never,
        filled_in=_never,
        merged=_stated_keys,
        in_container=in_container,
        within=within,
    )


def values(*path: str, in_container: bool = False, limit: int | None = None) -> ListKind:
    """A list of plain values, or of objects that only count as a whole: an item is there or it is not.

    Args:
        path: from spec or container to the list
    """
    *within, field = path
    return ListKind(
        field=field,
        identity=_whole,
        canonical=lambda _item: True,
        owned=_never,
        filled_in=_never,
        merged=_stated_keys,
        in_container=in_container,
        within=tuple(within),
        limit=limit,
    )


def _whole(item: Any) -> Hashable:
    return hashable(defaults.plain(item)) if isinstance(item, dict) else hashable(item)


def hashable(value: Any) -> Hashable:
    """A JSON-like value as a key; maps with the same entries are equal."""
    if isinstance(value, dict):
        return frozenset((key, hashable(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    plain: Hashable = value
    return plain


def _joined_host_names(have: Json, want: Json) -> Json:
    names = have.get("hostnames") or []
    return {
        **have,
        "hostnames": [*names, *(name for name in want.get("hostnames") or () if name not in names)],
    }


HOST_ALIASES = replace(_keyed("hostAliases", "ip"), joined=_joined_host_names)
SPREAD_CONSTRAINTS = _keyed("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable")
READINESS_GATES = _keyed("readinessGates", "conditionType")
SCHEDULING_GATES = _keyed("schedulingGates", "name")
RESOURCE_CLAIMS = _keyed("resourceClaims", "name")
SYSCTLS = _keyed("sysctls", "name", within=("securityContext",))
DNS_OPTIONS = _keyed("options", "name", within=("dnsConfig",))
# MaxDNSNameservers and MaxDNSSearchPaths of k8s.io/kubernetes/pkg/apis/core/validation.
NAMESERVERS = values("dnsConfig", "nameservers", limit=3)
SEARCHES = values("dnsConfig", "searches", limit=32)
PORTS = replace(
    _keyed("ports", in_container=True),
    identity=lambda item: (item.get("containerPort"), item.get("protocol") or "TCP"),
    canonical=defaults.port,
    unique="name",
)
VOLUME_DEVICES = _keyed("volumeDevices", "devicePath", in_container=True)
CONTAINER_CLAIMS = _keyed("claims", "name", "request", within=("resources",), in_container=True)
