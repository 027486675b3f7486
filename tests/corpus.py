"""The recorded pods and reviews, and what an API server and other webhooks may do to a pod between two calls.

Everything handed out is a fresh copy, since admission changes its request in place. It must never read
anything outside of tests/captures.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import orjson

CAPTURES = Path(__file__).parent / "captures"

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME = "kube-api-access-"
Json = dict[str, Any]


def _names(folder: str) -> tuple[str, ...]:
    root = CAPTURES / folder
    return tuple(
        sorted(
            str(file.relative_to(root).with_suffix(""))
            for file in root.rglob("*.json")
            if file.name != "index.json"
        )
    )


@cache
def _bytes(folder: str, name: str) -> bytes:
    return (CAPTURES / folder / f"{name}.json").read_bytes()


REVIEWS = _names("reviews")
"""Names of all recorded reviews, such as `4.3.0/cluster-full-driver`."""

PODS = _names("pods")
"""Names of all pods as Spark sent them, such as `3.5.9/cluster-bare-01`."""


def review(name: str) -> Json:
    """A recorded AdmissionReview.

    Raises:
        FileNotFoundError: there is no such review.
    """
    value: Json = orjson.loads(_bytes("reviews", name))
    return value


def pod(name: str) -> Json:
    """A pod as Spark sent it: without the API server's defaults.

    Raises:
        FileNotFoundError: there is no such pod.
    """
    value: Json = orjson.loads(_bytes("pods", name))
    return value


def creates_a_pod(value: Json) -> bool:
    """True if the review is about what the webhook is for: a pod that is being created."""
    request = value["request"]
    return bool(
        request["operation"] == "CREATE" and request["kind"]["kind"] == "Pod" and "subResource" not in request
    )


@cache
def pod_reviews() -> tuple[str, ...]:
    """Names of the recorded reviews that create a pod."""
    return tuple(name for name in REVIEWS if creates_a_pod(review(name)))


def every_request() -> tuple[str, ...]:
    """Ids for `request_of`: each review that creates a pod, each bare pod, each bare pod with defaults."""
    bare = [f"pod:{name}" for name in PODS]
    return (*(f"review:{name}" for name in pod_reviews()), *bare, *(f"defaulted-{name}" for name in bare))


def request_of(request_id: str) -> Json:
    """The AdmissionReview for an id of `every_request`."""
    kind, _, name = request_id.partition(":")
    if kind == "review":
        return review(name)
    found = pod(name)
    return admission_review(defaulted(found) if kind == "defaulted-pod" else found)


def admission_review(
    value: Json, *, namespace: str = "jobs", uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002"
) -> Json:
    """A review that asks for the creation of this pod (which is not copied), as an API server words it."""
    metadata = value.get("metadata")
    request: Json = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "alice@example.com", "groups": ["spark-users", "system:authenticated"]},
        "object": value,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    if isinstance(metadata, dict) and metadata.get("name"):
        request["name"] = metadata["name"]
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def body(value: Json) -> bytes:
    """A review as it comes over the wire from a kube-apiserver, byte for byte."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode() + b"\n"


# --- what an API server fills in -------------------------------------------------------------------------

_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_POD_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER_DEFAULTS: Json = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SOURCE_DEFAULTS: dict[str, Json] = {
    "secret": {"defaultMode": 420},
    "configMap": {"defaultMode": 420},
    "downwardAPI": {"defaultMode": 420},
    "projected": {"defaultMode": 420},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
# Fields that are dropped when they hold their type's zero value: those that are no pointers in the Go types.
_ZERO_ITEM = {
    "volumeMounts": ("readOnly", "subPath", "subPathExpr"),
    "env": ("value",),
    "envFrom": ("prefix",),
    "tolerations": ("key", "operator", "value", "effect"),
}
_ZERO_SOURCE = {
    "emptyDir": ("medium",),
    "persistentVolumeClaim": ("readOnly",),
    "nfs": ("readOnly",),
    "glusterfs": ("readOnly",),
    "cephfs": ("readOnly", "path"),
    "fc": ("readOnly", "fsType"),
    "gcePersistentDisk": ("readOnly", "fsType"),
    "awsElasticBlockStore": ("readOnly", "fsType"),
}


def defaulted(value: Json, namespace: str = "jobs") -> Json:
    """A copy as an API server hands it out: defaults in, zero values out, quantities in their short form."""
    result = copy.deepcopy(value)
    metadata, spec = result.setdefault("metadata", {}), result["spec"]
    metadata["namespace"] = namespace
    _drop_empty(metadata, ("labels", "annotations", "ownerReferences", "finalizers"))
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for key, default in _POD_DEFAULTS.items():
        if spec.get(key) is None:
            spec[key] = copy.deepcopy(default)
    _fill_tolerations(spec)
    _fill_token(spec)
    for volume in spec.get("volumes") or []:
        _fill_volume(volume)
    for container in _containers(spec):
        _fill_container(container)
    _drop_zero(spec, "tolerations")
    _drop_empty(
        spec, ("volumes", "initContainers", "tolerations", "imagePullSecrets", "nodeSelector", "affinity")
    )
    result.setdefault("status", {})
    return result


def _containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def _drop_empty(holder: Json, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key in holder and not holder[key]:
            del holder[key]


def _drop_zero(holder: Json, field: str) -> None:
    for item in holder.get(field) or []:
        for key in _ZERO_ITEM[field]:
            if key in item and not item[key]:
                del item[key]


def _fill_tolerations(spec: Json) -> None:
    tolerations = spec.get("tolerations") or []
    for key in _UNREACHABLE:
        if not any(
            item.get("key") in (key, None, "") and item.get("effect") in ("NoExecute", None, "")
            for item in tolerations
        ):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    spec["tolerations"] = tolerations


def _fill_token(spec: Json) -> None:
    if spec.get("automountServiceAccountToken") is False:
        return
    volumes = spec.get("volumes") or []
    name = next((item["name"] for item in volumes if item["name"].startswith(TOKEN_VOLUME)), None)
    for container in _containers(spec):
        mounts = container.get("volumeMounts") or []
        if all(mount["mountPath"].rstrip("/") != TOKEN_PATH for mount in mounts):
            name = name or f"{TOKEN_VOLUME}x7k2p"
            mounts.append({"name": name, "readOnly": True, "mountPath": TOKEN_PATH})
        container["volumeMounts"] = mounts
    if name and all(item["name"] != name for item in volumes):
        volumes.append({"name": name, "projected": _token_projection()})
    spec["volumes"] = volumes


def _token_projection() -> Json:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": ca},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


def _fill_volume(volume: Json) -> None:
    sources = [key for key in volume if key != "name" and isinstance(volume[key], dict)]
    for source in sources:
        held = volume[source]
        for key, default in _SOURCE_DEFAULTS.get(source, {}).items():
            if held.get(key) is None:
                held[key] = default
        for key in _ZERO_SOURCE.get(source, ()):
            if key in held and not held[key]:
                del held[key]
        _drop_empty(held, ("items",))
    items = list((volume.get("downwardAPI") or {}).get("items") or [])
    for part in (volume.get("projected") or {}).get("sources") or []:
        items += (part.get("downwardAPI") or {}).get("items") or []
        if "serviceAccountToken" in part:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for item in items:
        _fill_references(item)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim:
        claim["spec"].setdefault("volumeMode", "Filesystem")
        _shorten((claim["spec"].get("resources") or {}).get("requests"))
    if "emptyDir" in volume:
        _shorten(volume["emptyDir"], "sizeLimit")


def _fill_references(holder: Json) -> None:
    if isinstance(holder.get("fieldRef"), dict):
        holder["fieldRef"].setdefault("apiVersion", "v1")
    if isinstance(holder.get("resourceFieldRef"), dict):
        holder["resourceFieldRef"].setdefault("divisor", "0")
        _shorten(holder["resourceFieldRef"], "divisor")


def _fill_container(container: Json) -> None:
    for key, default in _CONTAINER_DEFAULTS.items():
        if container.get(key) is None:
            container[key] = copy.deepcopy(default)
    if not container.get("imagePullPolicy"):
        tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = "Always" if tag in ("", "latest") else "IfNotPresent"
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for item in container.get("env") or []:
        _fill_references(item.get("valueFrom") or {})
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            for key, seconds in _PROBE_DEFAULTS.items():
                container[probe].setdefault(key, seconds)
            if "httpGet" in container[probe]:
                container[probe]["httpGet"].setdefault("scheme", "HTTP")
    for field in ("volumeMounts", "env", "envFrom"):
        _drop_zero(container, field)
    _drop_empty(container, ("volumeMounts", "env", "envFrom", "ports", "args", "command"))
    for part in ("requests", "limits"):
        _shorten(container["resources"].get(part))


_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]i|[numkMGTP]?)")


def short_quantity(text: str) -> str:
    """A Kubernetes quantity as the API server writes it: `1024Mi` is `1Gi`, `0.5` is `500m`."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        return text
    number, suffix = Decimal(match[1]), match[2]
    if suffix.endswith("i"):
        amount = number * 1024 ** _BINARY.index(suffix)
        if amount >= 1024 and amount == amount.to_integral_value():
            whole, step = int(amount), 0
            while whole % 1024 == 0 and step + 1 < len(_BINARY):
                whole, step = whole // 1024, step + 1
            return f"{whole}{_BINARY[step]}"
    else:
        amount = number.scaleb(_DECIMAL[suffix])
    if not amount:
        return "0"
    for unit, power in sorted(_DECIMAL.items(), key=lambda pair: -pair[1]):
        scaled = amount.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{unit}"
    return text


def _shorten(holder: Any, key: str | None = None) -> None:
    for name in [key] if key else list(holder or ()):
        if isinstance((holder or {}).get(name), str):
            holder[name] = short_quantity(holder[name])


# --- what other webhooks may do ---------------------------------------------------------------------------

SIDECAR = "mesh-proxy"


def with_sidecar(value: Json) -> Json:
    """A copy with another webhook's sidecar in front of all containers."""
    result = copy.deepcopy(value)
    sidecar = {"name": SIDECAR, "image": "registry.example.com/mesh-proxy:2.1"}
    if all(container["name"] != SIDECAR for container in _containers(result["spec"])):
        result["spec"]["containers"].insert(0, sidecar)
    return result


def perturbed(value: Json, random_source: random.Random, *, sidecar: bool = True) -> Json:
    """A copy that means the same to Kubernetes: defaults filled in, lists whose order is free shuffled.

    The environment is shuffled only where no value refers to another variable and no name stands twice.
    `sidecar`: another webhook's container is put in front too.
    """
    result = defaulted(
        with_sidecar(value) if sidecar else value, value["metadata"].get("namespace") or "jobs"
    )
    spec = result["spec"]
    for field in ("volumes", "tolerations", "imagePullSecrets", "containers"):
        _shuffle(spec, field, random_source.shuffle)
    for container in _containers(spec):
        _shuffle(container, "volumeMounts", random_source.shuffle)
        env = container.get("env") or []
        names = {item["name"] for item in env}
        if len(names) == len(env) and not any("$(" in (item.get("value") or "") for item in env):
            _shuffle(container, "env", random_source.shuffle)
    return result


def _shuffle(holder: Json, field: str, shuffle: Callable[[list[Any]], None]) -> None:
    if holder.get(field):
        shuffle(holder[field])
