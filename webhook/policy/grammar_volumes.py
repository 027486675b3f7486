"""Spark's grammar of volumes: `volumes.<type>.<name>.{mount,options,label,annotation}.*` as a volume of a
policy.

The four types of KubernetesVolumeUtils with all their options, and types that Spark does not have: configMap,
secret, projected, csi, ephemeral. A claim `OnDemand`, which Spark itself would make, becomes a generic
ephemeral volume: a webhook makes no objects. It must never put a value into a message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from webhook.spark import LOCAL_DIRS_PREFIX

Json = dict[str, Any]

_MOUNT = ("mount.path", "mount.readOnly", "mount.subPath", "mount.subPathExpr")
_CLAIM = ("options.storageClass", "options.sizeLimit", "options.accessMode", "label.*", "annotation.*")
_PROJECTION = ("options.items", "options.defaultMode", "options.optional")
OPTIONS: dict[str, tuple[str, ...]] = {
    "hostPath": ("options.path", "options.type"),
    "persistentVolumeClaim": ("options.claimName", *_CLAIM),
    "emptyDir": ("options.medium", "options.sizeLimit"),
    "nfs": ("options.server", "options.path"),
    "configMap": ("options.name", *_PROJECTION),
    "secret": ("options.secretName", *_PROJECTION),
    "projected": (
        *("options.secrets", "options.configMaps", "options.defaultMode", "options.audience"),
        *("options.tokenPath", "options.tokenExpirationSeconds"),
    ),
    "csi": ("options.driver", "options.fsType", "options.volumeAttributes.*"),
    "ephemeral": _CLAIM,
}


def block(kind: str, name: str, options: Json) -> Json:
    """A role block with this volume alone.

    Args:
        kind: the type, as `emptyDir`
        name: of the volume; one that begins with spark-local-dir- is scratch space
        options: `mount.path`, `options.claimName`, ... -> text

    Raises:
        ValueError: with what is wrong
    """
    if kind not in OPTIONS:
        near = difflib.get_close_matches(kind, OPTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(OPTIONS)}"
        raise ValueError(f"not a type of volume, {hint}")
    _check_names(kind, options)
    if "mount.path" not in options:
        raise ValueError("mount.path is missing: where it is mounted")
    read_only = _boolean(options, "mount.readOnly")
    source = _SOURCES[kind](options, bool(read_only))
    if name.startswith(LOCAL_DIRS_PREFIX):
        for option in ("mount.subPath", "mount.subPathExpr"):
            if options.get(option):
                raise ValueError(f"{option} is not for scratch space, which has a volume of its own")
        if read_only:
            raise ValueError("mount.readOnly is not for scratch space")
        return {"localDirs": {**source, "paths": [options["mount.path"]]}}
    mount = {"mountPath": options["mount.path"]}
    stated = {
        key: options[f"mount.{key}"] for key in ("subPath", "subPathExpr") if options.get(f"mount.{key}")
    }
    only = {} if read_only is None else {"readOnly": read_only}
    return {"volumes": [{"name": name, **source, "mounts": [{**mount, **stated, **only}]}]}


def _check_names(kind: str, options: Json) -> None:
    known = (*_MOUNT, *OPTIONS[kind])
    open_ended = tuple(option[:-1] for option in known if option.endswith("*"))
    for option in options:
        if option not in known and not (open_ended and option.startswith(open_ended)):
            near = difflib.get_close_matches(option, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"{option} is not an option of {kind}, {hint}")


def _boolean(options: Json, key: str) -> bool | None:
    text = options.get(key)
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{key} is true or false")
    return bool(text.lower() == "true")


def _number(options: Json, key: str, base: int = 10) -> int:
    try:
        return int(options[key], base)
    except ValueError:
        raise ValueError(f"{key} is a whole number") from None


def _required(options: Json, *keys: str) -> Json:
    for key in keys:
        if not options.get(f"options.{key}"):
            raise ValueError(f"options.{key} is missing")
    return {key: options[f"options.{key}"] for key in keys}


def _optional(options: Json, *keys: str) -> Json:
    return {key: options[f"options.{key}"] for key in keys if options.get(f"options.{key}")}


def _below(options: Json, prefix: str) -> Json:
    return {key[len(prefix) :]: value for key, value in options.items() if key.startswith(prefix)}


def _host_path(options: Json, _read_only: bool) -> Json:
    return {"hostPath": {**_required(options, "path"), **_optional(options, "type")}}


def _nfs(options: Json, read_only: bool) -> Json:
    return {"nfs": {**_required(options, "server", "path"), **({"readOnly": True} if read_only else {})}}


def _empty_dir(options: Json, _read_only: bool) -> Json:
    return {"emptyDir": _optional(options, "medium", "sizeLimit")}


def _claim(options: Json, read_only: bool) -> Json:
    name = _required(options, "claimName")["claimName"]
    if "OnDemand" in name:
        return _ephemeral(options, read_only)
    for key in (option.rstrip("*") for option in _CLAIM):
        if any(option.startswith(key) for option in options):
            raise ValueError(f"{key.rstrip('.')} is for a claim that is made: use claimName OnDemand")
    claim = {"claimName": name.replace("SPARK_EXECUTOR_ID", "{{EXECUTOR_ID}}")}
    return {"persistentVolumeClaim": {**claim, **({"readOnly": True} if read_only else {})}}


def _ephemeral(options: Json, _read_only: bool) -> Json:
    if not options.get("options.sizeLimit"):
        raise ValueError("options.sizeLimit is missing: the size of the claim")
    spec: Json = {
        "accessModes": [options.get("options.accessMode", "ReadWriteOnce")],
        "resources": {"requests": {"storage": options["options.sizeLimit"]}},
    }
    if options.get("options.storageClass"):
        spec["storageClassName"] = options["options.storageClass"]
    metadata = {
        field: found
        for field, prefix in (("labels", "label."), ("annotations", "annotation."))
        if (found := _below(options, prefix))
    }
    template = {"spec": spec, **({"metadata": metadata} if metadata else {})}
    return {"ephemeral": {"volumeClaimTemplate": template}}


def _projection(options: Json) -> Json:
    found: Json = {}
    if options.get("options.items"):
        pairs = [item.strip().partition(":") for item in options["options.items"].split(",")]
        found["items"] = [{"key": key, "path": path or key} for key, _, path in pairs]
    if "options.defaultMode" in options:
        found["defaultMode"] = _number(options, "options.defaultMode", 8)
    optional = _boolean(options, "options.optional")
    return found if optional is None else {**found, "optional": optional}


def _config_map(options: Json, _read_only: bool) -> Json:
    return {"configMap": {**_required(options, "name"), **_projection(options)}}


def _secret(options: Json, _read_only: bool) -> Json:
    return {"secret": {**_required(options, "secretName"), **_projection(options)}}


def _projected(options: Json, _read_only: bool) -> Json:
    sources: list[Json] = [
        {field: {"name": name.strip()}}
        for field, key in (("secret", "options.secrets"), ("configMap", "options.configMaps"))
        for name in (options[key].split(",") if options.get(key) else ())
    ]
    if options.get("options.audience") or options.get("options.tokenPath"):
        token: Json = {"path": options.get("options.tokenPath", "token"), **_optional(options, "audience")}
        if "options.tokenExpirationSeconds" in options:
            token["expirationSeconds"] = _number(options, "options.tokenExpirationSeconds")
        sources.append({"serviceAccountToken": token})
    if not sources:
        raise ValueError("needs at least one of options.secrets, options.configMaps and options.audience")
    found: Json = {"sources": sources}
    if "options.defaultMode" in options:
        found["defaultMode"] = _number(options, "options.defaultMode", 8)
    return {"projected": found}


def _csi(options: Json, read_only: bool) -> Json:
    attributes = _below(options, "options.volumeAttributes.")
    return {
        "csi": {
            **_required(options, "driver"),
            **_optional(options, "fsType"),
            **({"volumeAttributes": attributes} if attributes else {}),
            **({"readOnly": True} if read_only else {}),
        }
    }


_SOURCES: dict[str, Callable[[Json, bool], Json]] = {
    "hostPath": _host_path,
    "persistentVolumeClaim": _claim,
    "emptyDir": _empty_dir,
    "nfs": _nfs,
    "configMap": _config_map,
    "secret": _secret,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
}
