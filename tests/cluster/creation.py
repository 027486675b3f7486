"""Many pods created at once, as they came out of admission: what the API server itself says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests import corpus
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import Json

# An API server sets these itself and refuses a new object that has them.
_OF_A_STORED_OBJECT = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_OF_KUBERNETES = ("system-cluster-critical", "system-node-critical")


def new_pod(pod: Json, namespace: str, number: int) -> Json:
    """The pod under a name of its own, without what a new object can't have."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _OF_A_STORED_OBJECT}
    metadata |= {"name": f"pod-{number}", "namespace": namespace}
    # Of owners that are not here: the garbage collector would take the pod away.
    metadata.pop("ownerReferences", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def needed(pods: list[Json]) -> Iterator[Json]:
    """What the pods refer to and an API server looks up: accounts and classes."""
    namespaces = {pod["metadata"]["namespace"] for pod in pods}
    accounts = {pod["spec"].get("serviceAccountName", "default") for pod in pods} - {"default"}
    for name in sorted(accounts):
        for namespace in namespaces:
            yield _object("v1", "ServiceAccount", name, namespace=namespace)
    recorded = _priorities()
    for name in sorted({pod["spec"].get("priorityClassName") for pod in pods} - {None, *_OF_KUBERNETES}):
        value = recorded.get(name, 1000)
        yield _object("scheduling.k8s.io/v1", "PriorityClass", name) | {"value": value}
    for name in sorted({pod["spec"].get("runtimeClassName") for pod in pods} - {None}):
        yield _object("node.k8s.io/v1", "RuntimeClass", name) | {"handler": "runc"}


def _priorities() -> dict[str, int]:
    """The priorities that the classes of the recorded pods stood for; they can't be changed later."""
    specs = (corpus.review(name)["request"]["object"]["spec"] for name in corpus.pod_reviews())
    return {spec["priorityClassName"]: spec["priority"] for spec in specs if "priorityClassName" in spec}


def _object(version: str, kind: str, name: str, **metadata: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def created(cluster: ControlPlane, pods: list[Json], *options: str) -> tuple[set[str], str]:
    """The names of the pods that the API server took, and what it said of the others."""
    everything = {"apiVersion": "v1", "kind": "List", "items": pods}
    arguments = ("create", "-f", "-", "-o", "name", *options)
    answer = cluster.kubectl(*arguments, stdin=json.dumps(everything), check=False)
    return set(answer.stdout.split()), answer.stderr
