"""The CustomResourceDefinitions of both kinds, made from the policy model: nothing is stated twice.

What a structural schema and CEL can't say stays for the server, which tells it in the object's status. No
default is written into the schema: an object reads as its author wrote it.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import re
from typing import Any

from webhook.policy.model import API_VERSION, CLUSTER_KIND, NAMESPACED_KIND, PolicySpec
from webhook.policy.shapes import EXACTLY_ONE, OPAQUE
from webhook.policy.values import INT32_MAX, INT64_MAX

Json = dict[str, Any]

GROUP, VERSION = API_VERSION.split("/")
SHORT_NAMES = {CLUSTER_KIND: "cspp", NAMESPACED_KIND: "spp"}

_KEPT = (
    "type",
    "description",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxLength",
    "maxProperties",
    "required",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
_SELF = re.compile(r"\bself\b")
_FORMATS = {INT32_MAX: "int32", INT64_MAX: "int64"}


def definition(kind: str) -> Json:
    """The CustomResourceDefinition of CLUSTER_KIND or NAMESPACED_KIND."""
    plural = f"{kind.lower().removesuffix('y')}ies"
    spec = _spec()
    if kind == NAMESPACED_KIND:
        # It is for its own namespace; left out, the field is an error and not a wish that nobody hears.
        match = spec["properties"]["match"]
        del match["properties"]["namespaceSelector"]
        match["description"] = (
            "Which pods of its own namespace a policy is for; what is absent does not restrict."
        )
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(kind),
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "What the Spark pods of "
                + ("namespaces" if kind == CLUSTER_KIND else "its namespace")
                + " get when they are created.",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": spec,
                    "status": _status(),
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [SHORT_NAMES[kind]],
                "categories": ["spark"],
            },
            "scope": "Cluster" if kind == CLUSTER_KIND else "Namespaced",
            "versions": [version],
        },
    }


def _spec() -> Json:
    schema = PolicySpec.model_json_schema()
    return _structural(schema, schema["$defs"])


def _structural(schema: Json, definitions: Json) -> Json:
    """A JSON schema of pydantic as a structural one: no references, no unions, a type everywhere."""
    if reference := schema.get("$ref"):
        schema = definitions[reference.rsplit("/", 1)[1]]
    if schema.get(OPAQUE):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    options = [option for option in _options(schema) if option.get("type") != "null"]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        return _structural({**options[0], **rest}, definitions)
    if options:
        return _union(options)
    result = {key: schema[key] for key in _KEPT if key in schema}
    _format_integer(result)
    if names := schema.get(EXACTLY_ONE):
        result["oneOf"] = [{"required": [name]} for name in names]
    if keys := schema.get("propertyNames", {}).get("x-kubernetes-validations"):
        result["x-kubernetes-validations"] = [
            {**key, "rule": f"self.all(key, {_SELF.sub('key', key['rule'])})"} for key in keys
        ]
    if "properties" in schema:
        properties = schema["properties"].items()
        result["properties"] = {name: _structural(inner, definitions) for name, inner in properties}
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(schema["additionalProperties"], definitions)
    if "items" in schema:
        result["items"] = _structural(schema["items"], definitions)
    return result


def _options(schema: Json) -> list[Json]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _union(options: list[Json]) -> Json:
    """Text or number, or a word or a list of words: a structural schema has no type for either.

    Numbers are whole ones there: a quantity with a fraction has to be text.
    """
    kinds = {option.get("type"): option for option in options}
    if set(kinds) == {"string", "integer"} or set(kinds) == {"string", "number"}:
        pattern = {"pattern": kinds["string"]["pattern"]} if "pattern" in kinds["string"] else {}
        return {"x-kubernetes-int-or-string": True, **pattern}
    if set(kinds) == {"string", "array"}:
        # Keywords for lists hold for whatever is no list, so what does not break maxItems: 0 is no list with
        # something in it; and likewise for texts and maxLength: 0.
        entries = {"not": {"maxLength": 0}}
        return {
            "x-kubernetes-preserve-unknown-fields": True,
            "anyOf": [
                {"enum": kinds["string"]["enum"]},
                {"not": {"maxItems": 0}, "items": entries},
            ],
        }
    raise ValueError(f"the schema of a union of {sorted(map(str, kinds))} is not known")


def _format_integer(schema: Json) -> None:
    """An int32 keeps its bounds, since Kubernetes 1.34 checks no format; every integer there is an int64."""
    width = _FORMATS.get(schema.get("maximum", 0))
    if width is None:
        return
    if width == "int64":
        # A float, which is what Helm makes of every number, does not hold it exactly.
        del schema["maximum"]
    if schema["minimum"] < 0:
        schema["format"] = width
        if width == "int64":
            del schema["minimum"]


def _columns(kind: str) -> list[Json]:
    def condition(name: str) -> str:
        return f'.status.conditions[?(@.type=="{name}")].status'

    columns = [
        ("Priority", "integer", ".spec.priority"),
        ("Mandatory", "boolean", ".spec.mandatory"),
        ("Accepted", "string", condition("Accepted")),
        ("Conflicted", "string", condition("Conflicted")),
        ("Namespaces", "integer", ".status.namespaces"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    return [
        {"name": name, "type": column, "jsonPath": path}
        for name, column, path in columns
        if kind == CLUSTER_KIND or name != "Namespaces"
    ]


def _status() -> Json:
    def integer(description: str, width: str = "int32") -> Json:
        return {"type": "integer", "format": width, "description": description}

    text = {"type": "string"}
    condition = {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": text,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": text,
            "message": text,
        },
    }
    return {
        "type": "object",
        "description": "Written by the webhook.",
        "properties": {
            "observedGeneration": integer("The generation of the spec that this is about.", "int64"),
            "namespaces": integer("Namespaces that opted in and that the policy is for."),
            "features": {
                "type": "object",
                "description": "How many features a pod can get from it.",
                "properties": {"driver": integer("A driver."), "executor": integer("An executor.")},
            },
            "conditions": {
                "type": "array",
                "description": "Accepted: in force. Conflicted: another policy goes first for a part.",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition,
            },
        },
    }
