"""podTemplate: any other part of a pod, as a partial Pod; fields that are not known yet are let through.

It must never know how a part is applied, nor repeat a value in an error.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from webhook import partial, spark
from webhook.defaults import mount_path
from webhook.kinds import Json, ListKind
from webhook.policy import ownership
from webhook.policy.items import Item, Model
from webhook.policy.shapes import Shape
from webhook.policy.values import fault

CONTAINER_LISTS = ("initContainers", "containers")
_SPARK_NAMES = frozenset(name for names in spark.CONTAINER_NAMES.values() for name in names)
_NOT_IN_A_TEMPLATE = {
    "ephemeralContainers": "can't be part of a new pod: Kubernetes adds them to a running one",
    "restartPolicy": "set by Spark itself and can't be changed by a policy",
    "priority": "follows from priorityClassName: state that one",
    "preemptionPolicy": "follows from priorityClassName: state that one",
    "overhead": "follows from runtimeClassName: state that one",
    "serviceAccount": "is the old name of serviceAccountName: use that one",
}
_ENTRY_POINT = "Spark's own entry point can't be changed by a policy; properties are set with `sparkConf`"

_Problem = tuple[tuple[str | int, ...], str]


class PodTemplateItem(Item):
    """A partial Pod. Its parts are merged into the pod one by one, each with the rules of its kind."""

    apiVersion: Literal["v1"] | None = Field(
        default=None, description="May stand here, as in a pod template of Spark's.", examples=["v1"]
    )
    kind: Literal["Pod"] | None = Field(
        default=None, description="May stand here, as in a pod template of Spark's.", examples=["Pod"]
    )
    metadata: Annotated[dict[str, Any], Shape("ObjectMeta")] | None = Field(
        default=None, description="Labels and annotations.", examples=[{"labels": {"team": "lake"}}]
    )
    spec: Annotated[dict[str, Any], Shape("PodSpec", open=True)] | None = Field(
        default=None,
        description=(
            "Any part of a pod's spec. The container name `spark` stands for Spark's own container, whatever "
            "its real name; a container that the pod does not have is added."
        ),
        examples=[{"containers": [{"name": "spark", "tty": True}], "hostname": "spark"}],
    )

    @model_validator(mode="after")
    def _nothing_of_others(self) -> Self:
        for path, problem in (*_in_metadata(self.metadata or {}), *_in_spec(self.spec or {})):
            raise fault(problem, *path)
        return self


class PodTemplatePart(PodTemplateItem):
    """One feature of a template: a template with this part alone, and what the part needs.

    Attributes:
        about: how messages name it, and what makes two parts the same one
    """

    about: tuple[str, Hashable] = Field(default=("", ""), exclude=True)


class TemplateFields(Model):
    """Everything that has no field of its own."""

    podTemplate: PodTemplateItem | None = Field(
        default=None,
        description=(
            "Any other part of a pod, as a partial Pod, so that a new field of Kubernetes needs no new "
            "version of the webhook. Every list item, map key and container is a feature of its own."
        ),
        examples=[{"spec": {"hostname": "spark", "containers": [{"name": "spark", "tty": True}]}}],
    )


def _in_metadata(metadata: Json) -> Iterator[_Problem]:
    for field, check in (("labels", ownership.label), ("annotations", ownership.annotation)):
        for key in metadata.get(field, ()):
            if problem := check(key):
                yield ("metadata", field, key), problem


def _in_spec(spec: Json) -> Iterator[_Problem]:
    for field, reason in _NOT_IN_A_TEMPLATE.items():
        if field in spec:
            yield ("spec", field), reason
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig", {}).get("nameservers"):
        yield ("spec", "dnsPolicy"), "None needs at least one of nameservers in dnsConfig beside it"
    for index, volume in enumerate(spec.get("volumes", ())):
        if problem := ownership.volume(volume["name"]):
            yield ("spec", "volumes", index, "name"), problem
    yield from _doubled(spec, partial.SPEC, ("spec",))
    names: set[str] = set()
    claims = {claim["name"] for claim in spec.get("resourceClaims", ())}
    for field in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field, ())):
            path, name = ("spec", field, index), container["name"]
            if name in names:
                yield (*path, "name"), "a container of this name is already in this template: remove one"
            names.add(name)
            yield from _in_container(container, path, field)
            for at, claim in enumerate(container.get("resources", {}).get("claims", ())):
                if claim["name"] not in claims:
                    reason = "no resourceClaim of this template has this name: add it to resourceClaims"
                    yield (*path, "resources", "claims", at, "name"), reason


def _in_container(container: Json, path: tuple[str | int, ...], field: str) -> Iterator[_Problem]:
    name = container["name"]
    if name in _SPARK_NAMES:
        yield (*path, "name"), f"Spark's own container is called `{spark.CONTAINER_PLACEHOLDER}` here"
    yield from _doubled(container, partial.CONTAINER, path)
    if name != spark.CONTAINER_PLACEHOLDER:
        return
    if field != "containers":
        yield (*path, "name"), "stands for Spark's own container, which is no init container"
    for key in ("command", "args"):
        if key in container:
            yield (*path, key), _ENTRY_POINT
    for index, variable in enumerate(container.get("env", ())):
        if problem := ownership.env(variable["name"]):
            yield (*path, "env", index, "name"), problem
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if problem := ownership.path(mount_path(mount["mountPath"])):
            yield (*path, "volumeMounts", index, "mountPath"), problem


def _doubled(value: Json, table: Mapping[str, Any], path: tuple[str | int, ...]) -> Iterator[_Problem]:
    """Items that stand twice in one list, by what makes two items the same one."""
    for key, rule in table.items():
        inner = value.get(key)
        if isinstance(rule, ListKind) and inner:
            seen: set[Hashable] = set()
            for index, item in enumerate(inner):
                identity = rule.identity(item)
                if identity in seen and rule.joined is None:
                    yield (*path, key, index), "is the same item as one before it: remove one of them"
                seen.add(identity)
        elif isinstance(rule, Mapping) and isinstance(inner, dict):
            yield from _doubled(inner, rule, (*path, key))
