"""podTemplate: any other part of a pod. Each list item, map key and container of it is a feature of its own.

What belongs together stays together: a mount comes with the volume of the template that it mounts, a
container with all of its volumes, dnsPolicy with dnsConfig. The merge rules are those of webhook.partial.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook import partial
from webhook.changes import EnsureKey
from webhook.containers import EnsureContainer
from webhook.injected_defaults import completed
from webhook.kinds import Json, ListKind
from webhook.plan import Change
from webhook.pod import ListField
from webhook.policy.template import CONTAINER_LISTS, PodTemplateItem, PodTemplatePart
from webhook.spark import CONTAINER_PLACEHOLDER
from webhook.steps.base import Step, shown

# Fields of the spec that only mean something together: they are one feature, stated by the first of them.
_TOGETHER = (("dnsPolicy", "dnsConfig"),)
# Objects of which every field is a feature of its own.
_BY_FIELD = frozenset({"securityContext", "affinity", "lifecycle"})


class _Part(NamedTuple):
    """A part of a spec or a container: where it stands, what it is called, and the object with it alone."""

    at: str
    identity: tuple[Hashable, ...]
    value: Json


def changes(item: PodTemplatePart) -> Sequence[Change]:
    """What a part asks for; volumes come before the containers that mount them."""
    metadata, spec = item.metadata or {}, item.spec or {}
    wanted: list[Change] = [
        EnsureKey(field, key, value)
        for field in ("labels", "annotations")
        for key, value in metadata.get(field, {}).items()
    ]
    wanted += partial.of_spec(spec)
    for container in spec.get("initContainers", ()):
        wanted.append(_added("initContainers", container))
    for container in spec.get("containers", ()):
        if container["name"] == CONTAINER_PLACEHOLDER:
            wanted += partial.of_container(container, "Spark")
        else:
            wanted.append(_added("containers", container))
    return wanted


def _added(field: ListField, container: Json) -> EnsureContainer:
    """A container that the pod may lack; one without an image is a part for one that is there."""
    return EnsureContainer(field, container, added=completed(container) if container.get("image") else None)


def _items(value: PodTemplateItem | None) -> Iterable[tuple[str, PodTemplatePart]]:
    if value is None:
        return
    shared: Json = {"onConflict": value.onConflict} if "onConflict" in value.model_fields_set else {}
    for part in (*_of_metadata(value.metadata or {}), *_of_spec(value.spec or {})):
        about = (" ".join(["podTemplate", *map(shown, part.identity)]), part.identity)
        yield (
            part.at,
            PodTemplatePart.model_construct({*shared, *part.value}, about=about, **shared, **part.value),
        )


def _of_metadata(metadata: Json) -> Iterator[_Part]:
    for field in ("labels", "annotations"):
        for key, value in metadata.get(field, {}).items():
            alone = {"metadata": {field: {key: value}}}
            yield _Part(f".metadata.{field}[{key}]", (field.removesuffix("s"), key), alone)


def _of_spec(spec: Json) -> Iterator[_Part]:
    stated = {key: value for key, value in spec.items() if key not in CONTAINER_LISTS}
    for part in _parts(stated, partial.SPEC, _TOGETHER):
        yield _Part(f".spec{part.at}", part.identity, {"spec": part.value})
    for field in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field, ())):
            for part in _of_container(container):
                needed = _needed(spec, part.value)
                value = {"spec": {**needed, field: [part.value]}}
                yield _Part(f".spec.{field}[{index}]{part.at}", part.identity, value)


def _of_container(container: Json) -> Iterator[_Part]:
    name = container["name"]
    if name != CONTAINER_PLACEHOLDER:
        yield _Part("", ("container", name), container)
        return
    stated = {key: value for key, value in container.items() if key != "name"}
    for part in _parts(stated, partial.CONTAINER, ()):
        yield _Part(part.at, (name, *part.identity), {"name": name, **part.value})


def _parts(stated: Json, table: Mapping[str, Any], together: Sequence[tuple[str, ...]]) -> Iterator[_Part]:
    """The parts of an object that are features of their own."""
    done: set[str] = set()
    for key, value in stated.items():
        rule = table.get(key)
        group = next((keys for keys in together if key in keys), None)
        if group is not None:
            first = next(name for name in group if name in stated)
            if first not in done:
                done.add(first)
                yield _Part(f".{first}", (first,), {name: stated[name] for name in group if name in stated})
        elif isinstance(rule, ListKind):
            for index, item in enumerate(value):
                yield _Part(f".{key}[{index}]", (key, rule.identity(item)), {key: [item]})
        elif rule is partial.KEYS or key in _BY_FIELD:
            for name, inner in value.items():
                yield _Part(f".{key}.{name}", (key, name), {key: {name: inner}})
        else:
            yield _Part(f".{key}", (key,), {key: value})


def _needed(spec: Json, container: Json) -> Json:
    """What of the template a part of a container refers to."""
    mounts = (*container.get("volumeMounts", ()), *container.get("volumeDevices", ()))
    found = {
        "volumes": {mount["name"] for mount in mounts},
        "resourceClaims": {claim["name"] for claim in container.get("resources", {}).get("claims", ())},
    }
    needed = {
        field: [item for item in spec.get(field, ()) if item["name"] in names]
        for field, names in found.items()
    }
    return {field: items for field, items in needed.items() if items}


STEP = Step(
    field="podTemplate",
    changes=changes,
    identity=lambda item: item.about[1],
    subject=lambda item: item.about[0],
    items=_items,
)
