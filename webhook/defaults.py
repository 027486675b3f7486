"""What Kubernetes fills in or writes differently: two values are the same if they are canonically equal.

Defaults of k8s.io/kubernetes/pkg/apis/core/v1/defaults.go, and the forms in which an API server sends a pod
back. It must never be used to change a pod: canonical values are for comparing only.
"""

from __future__ import annotations

import posixpath
import re
from decimal import Decimal
from typing import Any

_FILES_MODE = 0o644
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]))?")
_SUFFIX = {
    **{unit + "i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Decimal(10) ** (3 * power) for power, unit in enumerate("kMGTPE", 1)},
    **{unit: Decimal(10) ** (-3 * power) for power, unit in enumerate("mun", 1)},
}

_SOURCE_DEFAULTS: dict[str, dict[str, Any]] = {
    "secret": {"defaultMode": _FILES_MODE},
    "configMap": {"defaultMode": _FILES_MODE},
    "downwardAPI": {"defaultMode": _FILES_MODE},
    "projected": {"defaultMode": _FILES_MODE},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_NESTED_DEFAULTS: dict[str, dict[str, Any]] = {
    "fieldRef": {"apiVersion": "v1"},
    "resourceFieldRef": {"divisor": Decimal(0)},
    "serviceAccountToken": {"expirationSeconds": 3600},
    "httpGet": {"scheme": "HTTP", "path": "/"},
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
}
# What an API server sets where a pod says nothing.
_FILLED_IN_SPEC: dict[tuple[str, ...], Any] = {
    ("schedulerName",): "default-scheduler",
    ("dnsPolicy",): "ClusterFirst",
    ("terminationGracePeriodSeconds",): 30,
    ("serviceAccountName",): "default",
    ("serviceAccount",): "default",
    ("priority",): 0,
    ("preemptionPolicy",): "PreemptLowerPriority",
    ("enableServiceLinks",): True,
}
_FILLED_IN_CONTAINER: dict[tuple[str, ...], Any] = {
    ("terminationMessagePath",): "/dev/termination-log",
    ("terminationMessagePolicy",): "File",
}
# Fields for which an API server keeps no difference between false and absent.
_FALSE_IS_ABSENT = frozenset({"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty"})
_QUANTITY_KEYS = frozenset({"sizeLimit", "divisor"})
_QUANTITY_MAPS = frozenset({"requests", "limits"})


def quantity(value: Any) -> Decimal | None:
    """The number of a Kubernetes quantity (`1Gi`, `500m`, `1e3`, 2); None if it is not one."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match.group(1).count(".") > 1 or not re.search("[0-9]", match.group(1)):
        return None
    number = Decimal(match.group(1) + (match.group(2) or ""))
    return number * _SUFFIX[match.group(3)] if match.group(3) else number


def mount_path(path: str) -> str:
    """The one spelling of a mount path: `/opt//spark/conf/` is `/opt/spark/conf`."""
    if path.endswith("/") or "//" in path or "/." in path:
        return "/" + posixpath.normpath(path).lstrip("/")
    return path


def volume(item: dict[str, Any]) -> Any:
    """A Kubernetes Volume for comparing; its source stays even if it is empty (`emptyDir: {}`)."""
    result: dict[str, Any] = {}
    for key, value in item.items():
        if isinstance(value, dict):
            result[key] = {**_SOURCE_DEFAULTS.get(key, {}), **_plain(value)}
        elif value:
            result[key] = value
    claim = result.get("ephemeral", {}).get("volumeClaimTemplate", {})
    if isinstance(claim.get("spec"), dict):
        claim["spec"].setdefault("volumeMode", "Filesystem")
    return result


def mount(item: dict[str, Any]) -> Any:
    """A Kubernetes VolumeMount for comparing."""
    result = _plain(item)
    if isinstance(result.get("mountPath"), str):
        result["mountPath"] = mount_path(result["mountPath"])
    if result.get("mountPropagation") == "None":
        del result["mountPropagation"]
    return result


def port(item: dict[str, Any]) -> Any:
    """A ContainerPort for comparing; on its node's network a pod has the same port there."""
    result = {"protocol": "TCP", **_plain(item)}
    if result.get("hostPort") == result.get("containerPort"):
        del result["hostPort"]
    return result


def value(path: tuple[str, ...], item: Any) -> Any:
    """The value of a single field for comparing; None if it is as good as absent.

    Args:
        path: from the spec or the container to the field
    """
    if item is None or item in ("", {}, []) or (item is False and path[-1] in _FALSE_IS_ABSENT):
        return None
    return _number(item) if path[-2:-1] and path[-2] in _QUANTITY_MAPS else _canonical(path[-1], item)


def filled_in_spec(path: tuple[str, ...], item: Any) -> bool:
    """True if the field of a pod's spec has the value that an API server gives it by itself."""
    return bool(_FILLED_IN_SPEC.get(path) == item)


def filled_in_container(path: tuple[str, ...], item: Any, container: dict[str, Any]) -> bool:
    """True if the field of a container has the value that an API server gives it by itself."""
    if path == ("imagePullPolicy",):
        image = container.get("image")
        name = image.rpartition("/")[2] if isinstance(image, str) else ""
        newest = "@" not in name and name.partition(":")[2] in ("", "latest")
        return bool(item == ("Always" if newest else "IfNotPresent"))
    return bool(_FILLED_IN_CONTAINER.get(path, object()) == item)


def plain(item: dict[str, Any]) -> Any:
    """Any other item for comparing: zero values dropped, field references and quantities completed."""
    return _plain(item)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        kept = _canonical(key, item)
        if kept is not None and kept is not False and kept not in ("", [], {}):
            result[key] = kept
    return result


def _canonical(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        if key in _QUANTITY_MAPS:
            return {name: _number(amount) for name, amount in value.items()}
        return {**_NESTED_DEFAULTS.get(key, _SOURCE_DEFAULTS.get(key, {})), **_plain(value)}
    if isinstance(value, list):
        return [_plain(item) if isinstance(item, dict) else item for item in value]
    return _number(value) if key in _QUANTITY_KEYS else value


def _number(value: Any) -> Any:
    number = quantity(value)
    return value if number is None else number
