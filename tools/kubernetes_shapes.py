"""Writes webhook/policy/kubernetes.json: the fields of the Kubernetes types that a policy may hold.

Run it after an update of kubernetes-validate, whose schemas (taken from Kubernetes' own OpenAPI document) it
reads: python tools/kubernetes_shapes.py
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "webhook" / "policy" / "kubernetes.json"
CORE = "io.k8s.api.core.v1."
ROOTS = ("PodSpec", "KeyToPath")

# Optional in the schema, but a pod without them is refused: "effectively required, but due to backwards
# compatibility allowed to be empty".
REQUIRED_BY_VALIDATION = {
    "ConfigMapEnvSource": ["name"],
    "ConfigMapKeySelector": ["name"],
    "ConfigMapProjection": ["name"],
    "ConfigMapVolumeSource": ["name"],
    "EphemeralVolumeSource": ["volumeClaimTemplate"],
    "PersistentVolumeClaimSpec": ["accessModes", "resources"],
    "PodDNSConfigOption": ["name"],
    "SecretEnvSource": ["name"],
    "SecretKeySelector": ["name"],
    "SecretProjection": ["name"],
    "SecretVolumeSource": ["secretName"],
    "VolumeResourceRequirements": ["requests"],
}
# A policy states a part of a pod, and need not name its containers.
NOT_REQUIRED = {"PodSpec": {"containers"}}
# The only ObjectMeta is the one of an ephemeral volume's claim, where Kubernetes refuses all other fields.
ONLY = {"ObjectMeta": {"labels", "annotations"}}
SCALARS = {"Quantity": "quantity", "IntOrString": "intOrString", "Time": "string"}


def main() -> None:
    version, definitions = newest()
    shapes: dict[str, Any] = {}
    wanted = [CORE + root for root in ROOTS]
    while wanted:
        full = wanted.pop()
        name = full.rsplit(".", 1)[1]
        if name not in shapes:
            shapes[name] = shape(name, definitions[full], wanted)
    document = {"kubernetes": version, "shapes": dict(sorted(shapes.items()))}
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def newest() -> tuple[str, dict[str, Any]]:
    """The newest Kubernetes version of the installed kubernetes-validate, and its type definitions."""
    schemas = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    versions = {entry.name.removeprefix("v").split("-")[0] for entry in schemas.iterdir()}
    version = max(versions, key=lambda text: [int(part) for part in text.split(".")])
    text = (schemas / f"v{version}-local" / "_definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    return version, definitions


def shape(name: str, definition: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    only = ONLY.get(name)
    fields = {
        field: kind(value, wanted)
        for field, value in sorted(definition["properties"].items())
        if only is None or field in only
    }
    stated = {*definition.get("required", []), *REQUIRED_BY_VALIDATION.get(name, [])}
    required = sorted(stated - NOT_REQUIRED.get(name, set()))
    return {"required": required, "fields": fields} if required else {"fields": fields}


def kind(schema: dict[str, Any], wanted: list[str]) -> Any:
    """A type as webhook/policy/shapes.py reads it: a scalar's or shape's name, [type] or {"*": type}."""
    if reference := schema.get("$ref"):
        full = reference.rsplit("/", 1)[1]
        name = full.rsplit(".", 1)[1]
        if name in SCALARS:
            return SCALARS[name]
        wanted.append(full)
        return name
    plain = [name for name in schema["type"] if name != "null"] if isinstance(schema["type"], list) else None
    match plain[0] if plain else schema["type"]:
        case "array":
            return [kind(schema["items"], wanted)]
        case "object":
            return {"*": kind(schema["additionalProperties"], wanted)}
        case "integer":
            return schema.get("format", "int64")
        case "string" | "boolean" as scalar:
            return scalar
    raise ValueError(f"a type that is not known here: {schema}")


if __name__ == "__main__":
    main()
