"""Every volume source of Kubernetes, with all of its fields: accepted, kept as written, valid in a pod."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import orjson
import pytest

from tests.kubernetes_schema import schema_problems
from webhook.policy.load import load

SHAPES = json.loads((resources.files("webhook.policy") / "kubernetes.json").read_text("utf-8"))["shapes"]
SOURCES = sorted(set(SHAPES["Volume"]["fields"]) - {"name"})
TEXTS = {
    "DownwardAPIVolumeFile.path": "a/file",
    "EmptyDirVolumeSource.medium": "Memory",
    "HostPathVolumeSource.type": "Directory",
    "ImageVolumeSource.pullPolicy": "Always",
    "LabelSelectorRequirement.operator": "In",
    "ObjectFieldSelector.fieldPath": "metadata.labels['team']",
    "PersistentVolumeClaimSpec.accessModes": "ReadWriteOnce",
    "PersistentVolumeClaimSpec.volumeMode": "Filesystem",
    "ResourceFieldSelector.resource": "limits.memory",
}
PLAIN: dict[str, Any] = {"boolean": True, "int32": 7, "int64": 2**40, "quantity": "1.5Gi", "intOrString": 1}
EXCLUDED = {"DownwardAPIVolumeFile.resourceFieldRef"}  # by another field of the same object


def example(kind: Any, field: str = "") -> Any:
    """A value of a type of kubernetes.json, with every field set; `field` is `Shape.field`."""
    match kind:
        case [item]:
            return [example(item, field)]
        case {"*": value}:
            return {"some-key": example(value)}
        case "string":
            return TEXTS.get(field, "some-text")
        case "VolumeProjection":
            return {"secret": example("SecretProjection")}
        case str() if kind in SHAPES:
            fields = {f"{kind}.{name}": value for name, value in SHAPES[kind]["fields"].items()}
            return {
                name.partition(".")[2]: example(value, name)
                for name, value in fields.items()
                if name not in EXCLUDED
            }
    return PLAIN[kind]


@pytest.mark.parametrize("source", SOURCES)
def test_volume_source(source: str) -> None:
    written = example(SHAPES["Volume"]["fields"][source])
    policy = {
        "apiVersion": "sparkwebhook.dev/v1alpha1",
        "kind": "ClusterSparkPodPolicy",
        "metadata": {"name": "a"},
        "spec": {"common": {"volumes": [{"name": "v", source: written, "mounts": [{"mountPath": "/v"}]}]}},
    }
    loaded = load([("policy.json", orjson.dumps(policy).decode())])
    assert [str(error) for error in loaded.errors] == []
    item = loaded.policies[0].spec.common.volumes[0]
    assert item.volume() == {"name": "v", source: written}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "volumeMounts": [item.mounts[0].mount("v")]}],
            "volumes": [item.volume()],
        },
    }
    assert schema_problems(pod) == []


@pytest.mark.parametrize("source", SOURCES)
def test_a_field_that_the_source_does_not_have(source: str) -> None:
    written = {**example(SHAPES["Volume"]["fields"][source]), "notAField": 1}
    text = json.dumps(
        {
            "apiVersion": "sparkwebhook.dev/v1alpha1",
            "kind": "ClusterSparkPodPolicy",
            "metadata": {"name": "a"},
            "spec": {"common": {"volumes": [{"name": "v", source: written}]}},
        }
    )
    found = [error.path for error in load([("policy.json", text)]).errors]
    assert found == [f"spec.common.volumes[0].{source}.notAField"]
