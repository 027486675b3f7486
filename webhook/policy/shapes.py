"""Kubernetes types as pydantic sees them: raw dicts whose fields are checked one by one, none unknown.

The types come from kubernetes.json (tools/kubernetes_shapes.py writes it). A checked value is a plain dict
with exactly the keys that were written: no default is filled in and no object is built.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any, Final, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from webhook.policy import values

_SHAPES: dict[str, dict[str, Any]] = json.loads(
    resources.files("webhook.policy").joinpath("kubernetes.json").read_text(encoding="utf-8")
)["shapes"]

# What Kubernetes checks beyond the type, by "Shape.field" or "*.field".
_RULES: dict[str, values.Rule] = {
    "KeyToPath.path": values.file_path,
    "DownwardAPIVolumeFile.path": values.file_path,
    "KeyToPath.key": values.config_key,
    "SecretKeySelector.key": values.config_key,
    "ConfigMapKeySelector.key": values.config_key,
    "SecretKeySelector.name": values.dns_subdomain,
    "ConfigMapKeySelector.name": values.dns_subdomain,
    "SecretEnvSource.name": values.dns_subdomain,
    "ConfigMapEnvSource.name": values.dns_subdomain,
    "SecretProjection.name": values.dns_subdomain,
    "ConfigMapProjection.name": values.dns_subdomain,
    "SecretVolumeSource.secretName": values.dns_subdomain,
    "ConfigMapVolumeSource.name": values.dns_subdomain,
    "PersistentVolumeClaimVolumeSource.claimName": values.dns_subdomain,
    "HostPathVolumeSource.path": values.no_parent,
    "EmptyDirVolumeSource.medium": values.medium,
    "ServiceAccountTokenProjection.path": values.file_path,
    "ObjectFieldSelector.fieldPath": values.pod_field,
    "ResourceFieldSelector.resource": values.container_resource,
    "VolumeMount.subPath": values.relative_path,
    "VolumeMount.subPathExpr": values.relative_path,
}
_CHOICES = {
    "HostPathVolumeSource.type": (
        *(
            "",
            "DirectoryOrCreate",
            "Directory",
            "FileOrCreate",
            "File",
            "Socket",
            "CharDevice",
            "BlockDevice",
        ),
    ),
    "ImageVolumeSource.pullPolicy": ("Always", "IfNotPresent", "Never"),
    "PersistentVolumeClaimSpec.accessModes": (
        *("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
    ),
    "PersistentVolumeClaimSpec.volumeMode": ("Filesystem", "Block"),
    "VolumeMount.mountPropagation": ("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.recursiveReadOnly": ("Disabled", "IfPossible", "Enabled"),
    "LabelSelectorRequirement.operator": ("In", "NotIn", "Exists", "DoesNotExist"),
}
_FILE_MODES = frozenset(
    f"{shape}.{field}"
    for shape, definition in _SHAPES.items()
    for field in definition["fields"]
    if field in ("mode", "defaultMode") and shape != "EmptyDirVolumeSource"
)
_INT32: Final[dict[str, Any]] = {"ge": -values.INT32_MAX - 1, "le": values.INT32_MAX}
_INT64: Final[dict[str, Any]] = {"ge": -values.INT64_MAX - 1, "le": values.INT64_MAX}
_ONE_OF = {
    "EnvVarSource": tuple(_SHAPES["EnvVarSource"]["fields"]),
    "VolumeProjection": tuple(_SHAPES["VolumeProjection"]["fields"]),
    "DownwardAPIVolumeFile": ("fieldRef", "resourceFieldRef"),
}


EXACTLY_ONE = "x-exactly-one"
"""In a JSON schema: the names of fields of which one has to be there, and only one."""


class Shape:
    """Annotates a `dict[str, Any]` with the Kubernetes type that it must have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _dumped_as_it_is(_object(self.name))


class FieldOf:
    """Annotates a field with the type it has in a Kubernetes type."""

    def __init__(self, shape: str, field: str) -> None:
        self.shape = shape
        self.field = field

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _dumped_as_it_is(_kind(_SHAPES[self.shape]["fields"][self.field], self.shape, self.field))


def fields(shape: str) -> tuple[str, ...]:
    """The field names of a Kubernetes type."""
    return tuple(_SHAPES[shape]["fields"])


def _dumped_as_it_is(schema: CoreSchema) -> CoreSchema:
    return cast("CoreSchema", {**schema, "serialization": core_schema.simple_ser_schema("any")})


def _object(name: str) -> CoreSchema:
    shape = _SHAPES[name]
    required = shape.get("required", ())
    schema: CoreSchema = core_schema.typed_dict_schema(
        {
            field: core_schema.typed_dict_field(_kind(kind, name, field), required=field in required)
            for field, kind in shape["fields"].items()
        },
        extra_behavior="forbid",
        strict=True,
    )
    if names := _ONE_OF.get(name):
        schema = core_schema.no_info_after_validator_function(
            _exactly_one(names),
            schema,
            metadata={"pydantic_js_extra": {EXACTLY_ONE: list(names)}},
        )
    return schema


def _kind(kind: Any, shape: str, field: str) -> CoreSchema:
    match kind:
        case [item]:
            return core_schema.list_schema(_kind(item, shape, field), strict=True)
        case {"*": value}:
            text = _kind("string", shape, "")
            return core_schema.dict_schema(text, _kind(value, shape, ""), strict=True)
        case "string":
            return _text(shape, field)
        case "boolean":
            return core_schema.bool_schema(strict=True)
        case "int32" | "int64":
            if f"{shape}.{field}" in _FILE_MODES:
                return core_schema.int_schema(strict=True, ge=0, le=values.FILE_MODE_MAX)
            return core_schema.int_schema(strict=True, **(_INT32 if kind == "int32" else _INT64))
        case "quantity":
            return _text_or(
                core_schema.float_schema(strict=True, allow_inf_nan=False, **_INT64), values.quantity
            )
        case "intOrString":
            return _text_or(core_schema.int_schema(strict=True, **_INT32), None)
        case str():
            return _object(kind)
    raise ValueError(f"kubernetes.json has a type that is not known here: {kind}")


def _text(shape: str, field: str) -> CoreSchema:
    name = f"{shape}.{field}"
    if choices := _CHOICES.get(name):
        return core_schema.literal_schema(list(choices))
    return _checked_text(_RULES.get(name))


def _checked_text(check: values.Rule | None) -> CoreSchema:
    validate = values.checker(check) if check else values.check_text
    return core_schema.with_info_after_validator_function(
        validate,
        core_schema.str_schema(strict=True),
        metadata={"pydantic_js_extra": values.schema_extra(check)},
    )


def _text_or(number: CoreSchema, check: values.Rule | None) -> CoreSchema:
    """A text or a number; a number stays as it is written (a float schema would make 1.0 of 1)."""
    as_written = core_schema.no_info_wrap_validator_function(_keep, number)
    return core_schema.tagged_union_schema(
        {"text": _checked_text(check), "number": as_written}, _text_or_number
    )


def _text_or_number(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _keep(value: Any, validate: core_schema.ValidatorFunctionWrapHandler) -> Any:
    validate(value)
    return value


def exactly_one(names: Iterable[str]) -> Any:
    """The CEL rule that one of these fields is there and no other of them."""
    names = list(names)
    stated = ", ".join(f"has(self.{name})" for name in names)
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) < 6 else "its sources"
    return {
        "rule": f"[{stated}].filter(stated, stated).size() == 1",
        "message": f"needs exactly one of {listed}",
    }


def _exactly_one(names: tuple[str, ...]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def validate(value: dict[str, Any]) -> dict[str, Any]:
        if sum(name in value for name in names) != 1:
            raise values.fault(f"needs exactly one of {', '.join(names)}")
        return value

    return validate
