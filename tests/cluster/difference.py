"""What one pod has and another of the same making has not, whatever differs from run to run left aside.

It must never leave anything else aside: what is masked here is named here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.cluster.objects import STATUS, Json

# Of the API server, or of the run; `status` is a kubelet's.
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_MASKS = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"\b[0-9a-f]{16}\b", "HEX"),
    (r"kube-api-access-[a-z0-9]{5}\b", "kube-api-access"),
    (r"@127\.0\.0\.1:\d+", "@127.0.0.1:PORT"),
    (r"-Dspark\.driver\.port=\d+", "-Dspark.driver.port=PORT"),
    (r'\\"hash\\":\\"[0-9a-f]{8}\\"', r'\\"hash\\":\\"HASH\\"'),
)
_HASH_LABELS = ("pod-template-hash", "controller-revision-hash")


def comparable(pod: Json) -> Json:
    """The pod with APP_ID, NAMESPACE and the like in place of what is another in each run."""
    metadata, labels = pod["metadata"], pod["metadata"]["labels"]
    kept = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
    text = json.dumps({"metadata": kept, "spec": pod["spec"]})
    # As a whole word: a StatefulSet's revision may begin with the name of one of its pods.
    text = re.sub(rf"{re.escape(metadata['name'])}(?![\w-])", "POD", text)
    own = [(labels[key], "HASH") for key in _HASH_LABELS if key in labels]
    own += [(labels["spark-app-selector"], "APP_ID"), (metadata["namespace"], "NAMESPACE")]
    for value, word in own:
        text = text.replace(value, word)
    for pattern, word in _MASKS:
        text = re.sub(pattern, word, text)
    masked: Json = json.loads(text)
    for container in masked["spec"]["containers"]:
        _sort_java_options(container.get("env", []))
    annotations = masked["metadata"].get("annotations", {})
    if STATUS in annotations:
        annotations[STATUS] = json.loads(annotations[STATUS])
    return masked


def _sort_java_options(env: list[Json]) -> None:
    """Spark numbers them in an order of its own each time."""
    options = [item for item in env if item["name"].startswith("SPARK_JAVA_OPT_")]
    for item, value in zip(options, sorted(item["value"] for item in options), strict=True):
        item["value"] = value


def difference(before: Any, after: Any) -> Json:
    """{added: a partial pod, changed: {path: [before, after]}}; a removal and another order are changes."""
    changed: dict[str, list[Any]] = {}
    added = _added(before, after, "", changed)
    return {"added": added, "changed": changed}


def _added(before: Any, after: Any, path: str, changed: dict[str, list[Any]]) -> Any:
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        return _added_to_map(before, after, path, changed)
    if isinstance(before, list) and isinstance(after, list):
        return _added_to_list(before, after, path, changed)
    changed[path] = [before, after]
    return None


def _added_to_map(before: Json, after: Json, path: str, changed: dict[str, list[Any]]) -> Json | None:
    found: Json = {}
    for key in (*before, *(key for key in after if key not in before)):
        inner = f"{path}.{key}" if path else key
        if key not in before:
            found[key] = after[key]
        elif key not in after:
            changed[inner] = [before[key], None]
        elif value := _added(before[key], after[key], inner, changed):
            found[key] = value
    return found or None


def _added_to_list(
    before: list[Any], after: list[Any], path: str, changed: dict[str, list[Any]]
) -> list[Any] | None:
    old, new = {_identity(item): item for item in before}, {_identity(item): item for item in after}
    doubled = len(old) != len(before) or len(new) != len(after)
    if doubled or [identity for identity in new if identity in old] != list(old):
        changed[path] = [before, after]
        return None
    found = []
    for identity, item in new.items():
        if identity not in old:
            found.append(item)
        elif value := _added(old[identity], item, f"{path}[{identity}]", changed):
            found.append({"name": item["name"], **value} if "name" in item else value)
    return found or None


def _identity(item: Any) -> str:
    """How Kubernetes tells the items of a pod's lists apart."""
    if isinstance(item, dict):
        for key in ("mountPath", "name"):
            if key in item:
                return str(item[key])
    return json.dumps(item, sort_keys=True)
