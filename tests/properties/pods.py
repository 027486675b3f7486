"""Requests for pods: the recorded ones, as they are and with legal but odd things done to them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests import corpus, door
from tests.properties import policies as pool

Json = dict[str, Any]

recorded = st.sampled_from(corpus.every_request())

LISTS = ("volumes", "tolerations", "imagePullSecrets", "initContainers")
# Maps whose keys are the user's own.
FREE_MAPS = {
    *("labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests"),
    *("options", "volumeAttributes"),
}
CONTAINER_LISTS = ("env", "envFrom", "volumeMounts", "ports")


@st.composite
def requests(draw: st.DrawFn, *, unknown_fields: bool = False) -> Json:
    """An AdmissionReview of a Spark pod that an API server would accept, but for `unknown_fields`."""
    review = corpus.request_of(draw(recorded))
    pod = review["request"]["object"]
    if draw(st.booleans()):
        _grow(draw, pod)
    if draw(st.integers(0, 3)) == 0:
        _strip(draw, pod)
    if draw(st.integers(0, 4)) == 0:
        exclude = draw(pool.pick("true", "a, b", "z"))
        pod["metadata"]["annotations"] = {
            **(pod["metadata"].get("annotations") or {}),
            "sparkwebhook.dev/exclude": exclude,
        }
    if unknown_fields:
        add_unknown_fields(pod)
    return review


def _grow(draw: st.DrawFn, pod: Json) -> None:
    """Give the pod things of the pools that policies draw from, as its author might."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    container = draw(st.sampled_from(containers))
    names = {volume["name"] for volume in spec.get("volumes") or []}
    paths = {mount["mountPath"].rstrip("/") for mount in container.get("volumeMounts") or []}
    for volume in draw(st.lists(pool.volumes(with_mounts=False), max_size=2)):
        if volume["name"] not in names:
            names.add(volume["name"])
            spec["volumes"] = [copy.deepcopy(volume), *(spec.get("volumes") or [])]
    for mount in draw(st.lists(pool.mounts, max_size=2)):
        path = mount["mountPath"].rstrip("/")
        if path not in paths and "{" not in path and names:
            paths.add(path)
            plain = {key: value for key, value in mount.items() if key not in ("containers", "subPath")}
            added = {"name": draw(st.sampled_from(sorted(names))), **plain}
            container["volumeMounts"] = [added, *(container.get("volumeMounts") or [])]
    for item in draw(st.lists(st.one_of(pool.literal_env, pool.reference_env), max_size=3)):
        container["env"] = [copy.deepcopy(item), *(container.get("env") or [])]
    for item in draw(st.lists(pool.tolerations, max_size=2)):
        spec["tolerations"] = [*(spec.get("tolerations") or []), copy.deepcopy(item)]


def _strip(draw: st.DrawFn, pod: Json) -> None:
    """Take optional lists away, or leave null or nothing in their place."""
    spec = pod["spec"]
    used = {mount["name"] for item in spec["containers"] for mount in item.get("volumeMounts") or []}
    holder, field = draw(
        st.sampled_from(
            [
                *((spec, field) for field in LISTS if field != "volumes" or not used),
                *((item, field) for item in spec["containers"] for field in CONTAINER_LISTS),
                (spec, "nodeSelector"),
                (pod["metadata"], "annotations"),
            ]
        )
    )
    kind = draw(pool.pick("absent", "null", "empty"))
    if kind == "absent":
        holder.pop(field, None)
    else:
        empty: Any = {} if field in ("nodeSelector", "annotations") else []
        holder[field] = None if kind == "null" else empty


def add_unknown_fields(pod: Json) -> None:
    """Put fields that nobody knows into every object of the pod that is no map of the user's own keys."""
    for holder in list(_objects(pod)):
        holder.update(copy.deepcopy(door.UNKNOWN))


def _objects(value: Any, key: str = "") -> Iterator[Json]:
    if isinstance(value, dict):
        free = key in (
            "labels",
            "annotations",
            "nodeSelector",
            "matchLabels",
            "limits",
            "requests",
            "options",
        )
        if not free and not key.startswith(("f:", "fieldsV1")):
            yield value
        for name, item in value.items():
            if name not in ("managedFields", *door.UNKNOWN):
                yield from _objects(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)
