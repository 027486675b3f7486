"""What an API server would refuse about a pod: Kubernetes' own JSON schema, and rules beyond a schema.

The schema is the strict one (unknown fields are errors) of kubernetes-validate's newest Kubernetes. The rules
are those of Kubernetes' pod validation that an injecting webhook can break. It must never look at policies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from kubernetes_validate import utils
from referencing import Registry, Resource

Json = dict[str, Any]

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_EXPANSIONS = re.compile(r"\$\$|\$\(([^()]+)\)")
ANNOTATIONS_LIMIT = 262144


@cache
def _validator() -> Any:
    version = utils.latest_version()
    folder = f"kubernetes-json-schema/v{version}-local-strict"
    schema = utils.schema_contents(f"{folder}/pod-v1.json", version)
    definitions = utils.schema_contents(f"{folder}/_definitions.json", version)
    registry = Resource.from_contents(definitions) @ (Resource.from_contents(schema) @ Registry())
    return jsonschema.Draft202012Validator(schema, registry=registry)


def schema_problems(pod: Json) -> list[str]:
    """What Kubernetes' JSON schema says of this pod; unknown fields are problems. Empty: nothing is wrong."""
    return [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(pod)]


def rule_problems(pod: Json) -> list[str]:
    """What pod validation would refuse beyond the schema, for a pod that the schema accepts."""
    return list(_pod_rules(pod))


def problems(pod: Json) -> list[str]:
    """All that an API server would refuse; the rules are looked at only for a pod of the right shape."""
    return schema_problems(pod) or rule_problems(pod)


def _pod_rules(pod: Json) -> Iterator[str]:
    metadata, spec = pod["metadata"], pod["spec"]
    for where, values in (("labels", metadata.get("labels")), ("nodeSelector", spec.get("nodeSelector"))):
        for key, value in (values or {}).items():
            if not _qualified(key):
                yield f"{where}: bad key {key!r}"
            if value and not (len(value) <= 63 and _NAME_PART.fullmatch(value)):
                yield f"{where}: bad value {value!r} of {key}"
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if not _qualified(key.lower()):
            yield f"annotations: bad key {key!r}"
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        yield "annotations: too long"
    yield from _toleration_rules(spec)
    yield from _volume_rules(spec)
    both = (spec.get("initContainers") or []) + (spec.get("containers") or [])
    yield from _doubles("containers", [container["name"] for container in both])
    volumes = {volume["name"] for volume in spec.get("volumes") or []}
    for container in both:
        yield from _container_rules(container, volumes)


def _qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    named = bool(len(name) <= 63 and _NAME_PART.fullmatch(name))
    return named and (not slash or bool(len(prefix) <= 253 and _DNS_SUBDOMAIN.fullmatch(prefix)))


def _doubles(where: str, names: list[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{where}: {name!r} twice"


def _toleration_rules(spec: Json) -> Iterator[str]:
    for item in spec.get("tolerations") or []:
        operator, effect = item.get("operator") or "Equal", item.get("effect") or ""
        if item.get("key") and not _qualified(item["key"]):
            yield f"tolerations: bad key {item['key']!r}"
        if not item.get("key") and operator != "Exists":
            yield "tolerations: without a key only Exists"
        if operator == "Exists" and item.get("value"):
            yield "tolerations: Exists takes no value"
        if effect not in _EFFECTS:
            yield f"tolerations: bad effect {effect!r}"
        if item.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield "tolerations: seconds are for NoExecute only"


def _volume_rules(spec: Json) -> Iterator[str]:
    volumes = spec.get("volumes") or []
    yield from _doubles("volumes", [volume["name"] for volume in volumes])
    for volume in volumes:
        name = volume["name"]
        if not (len(name) <= 63 and _DNS_LABEL.fullmatch(name)):
            yield f"volumes: bad name {name!r}"
        if len([key for key in volume if key != "name"]) > 1:
            yield f"volumes: {name} has more than one source"
        for source in ("secret", "configMap", "projected", "downwardAPI"):
            mode = (volume.get(source) or {}).get("defaultMode")
            if mode is not None and not 0 <= mode <= 0o777:
                yield f"volumes: bad mode {mode} of {name}"
            for item in (volume.get(source) or {}).get("items") or []:
                if not _relative(item.get("path", "")):
                    yield f"volumes: bad path {item.get('path')!r} of {name}"


def _relative(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/")


def _container_rules(container: Json, volumes: set[str]) -> Iterator[str]:
    where = f"container {container['name']}"
    mounts = container.get("volumeMounts") or []
    yield from _doubles(f"{where} mounts", [mount["mountPath"] for mount in mounts])
    for mount in mounts:
        if mount["name"] not in volumes:
            yield f"{where}: no volume {mount['name']!r}"
        if not mount["mountPath"] or ":" in mount["mountPath"]:
            yield f"{where}: bad mount path {mount['mountPath']!r}"
        for field in ("subPath", "subPathExpr"):
            if mount.get(field) and not _relative(mount[field]):
                yield f"{where}: bad {field} {mount[field]!r}"
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield f"{where}: subPath and subPathExpr together"
    for item in container.get("env") or []:
        if not _ENV_NAME.fullmatch(item["name"]):
            yield f"{where}: bad variable name {item['name']!r}"
        if item.get("value") and item.get("valueFrom"):
            yield f"{where}: value and valueFrom of {item['name']}"
        if "valueFrom" in item and len(item["valueFrom"] or {}) != 1:
            yield f"{where}: valueFrom of {item['name']} needs one source"
    for item in container.get("envFrom") or []:
        if len([ref for ref in ("configMapRef", "secretRef") if item.get(ref)]) != 1:
            yield f"{where}: envFrom needs one source"


def used_before_set(env: list[Json], names: set[str]) -> list[str]:
    """Those of `names` that a value refers to by `$(NAME)` but that come only after it, as "USER: NAME"."""
    found, seen = [], set()
    for item in env:
        for match in _EXPANSIONS.finditer(item.get("value") or ""):
            if match[1] in names and match[1] not in seen:
                found.append(f"{item['name']}: {match[1]}")
        seen.add(item["name"])
    return found
