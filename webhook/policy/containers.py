"""The fields of a policy about containers: what is added beside Spark's, and what its own gets.

Kubernetes' own shapes, and the containers that they are for. It must never know how a feature is applied.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from webhook import validity
from webhook.policy import placeholders, values
from webhook.policy.items import (
    ContainerItem,
    Item,
    Model,
    item_list,
    with_fields_of,
)
from webhook.policy.shapes import OPAQUE, FieldOf
from webhook.policy.values import FixedDnsLabel, Text, fault
from webhook.resources import memory_limit_error
from webhook.spark import CONTAINER_NAMES, CONTAINER_PLACEHOLDER

_TAKEN = frozenset({CONTAINER_PLACEHOLDER, *(name for names in CONTAINER_NAMES.values() for name in names)})


def _check_together(container: dict[str, Any], field: str) -> None:
    """Fail if fields of a part of a container exclude each other; what has placeholders is checked later."""
    if next(placeholders.names(container), None) is None:
        for text, paths in validity.container_problems(container, field):
            raise fault(
                text, *(paths[0] if container.keys() > {"name"} and "name" in container else paths[0][1:])
            )


@with_fields_of("Container")
class AddedContainerItem(Item):
    """A Kubernetes Container that is added to the pod, and where among the others."""

    model_config = ConfigDict(json_schema_extra={OPAQUE: True})

    name: FixedDnsLabel = Field(
        description=(
            "The container's name, unique in the pod. One of the author's of this name is merged with it."
        ),
        examples=["log-shipper"],
    )
    image: Text = Field(description="Its image.", examples=["registry.example.com/log-shipper:1"])
    position: Literal["First", "Last"] | None = Field(
        default=None, description="Where among the containers of its list it is added; Last is the default.",
        examples=["First"],
    )  # fmt: skip
    before: FixedDnsLabel | None = Field(
        default=None,
        description=(
            "It is added before the container of this name; `spark` is Spark's own. Last if there is none."
        ),
        examples=["spark"],
    )
    after: FixedDnsLabel | None = Field(
        default=None,
        description="It is added after the container of this name, likewise.",
        examples=["istio-proxy"],
    )

    def container(self) -> dict[str, Any]:
        """The plain Kubernetes Container."""
        return self.model_dump(exclude=_NOT_OF_A_CONTAINER, exclude_unset=True)

    @property
    def runs_to_its_end(self) -> bool:
        """True for an init container that ends before the next one begins."""
        return getattr(self, "restartPolicy", None) != "Always"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name in _TAKEN:
            raise fault("Spark's own container: use the fields env, resources, ... for it", "name")
        places = [key for key in ("position", "before", "after") if getattr(self, key) is not None]
        if len(places) > 1:
            raise fault(f"{' and '.join(places)} exclude each other: keep one", places[1])
        container = self.container()
        _check_together(container, "initContainers" if self.runs_to_its_end else "containers")
        return self


_SHARED = {"onConflict", "containers"}
_NOT_OF_A_CONTAINER = {"onConflict", "position", "before", "after", "native"}


class InitContainerItem(AddedContainerItem):
    """A container that must have ended well before those of the pod begin."""


class SidecarItem(AddedContainerItem):
    """A container beside Spark's; a native one ends when Spark's own has ended."""

    native: bool = Field(
        default=True,
        description=(
            "A native sidecar: an init container with restartPolicy: Always, which starts before Spark "
            "and does "
            "not keep the pod from completing. With false it is an ordinary container, and the pod completes "
            "only when it has ended by itself."
        ),
        examples=[False],
    )

    @property
    def runs_to_its_end(self) -> bool:
        return False

    @model_validator(mode="after")
    def _sidecar(self) -> Self:
        if "restartPolicy" in self.model_fields_set:
            raise fault("is decided by `native`: remove it", "restartPolicy")
        return self


@with_fields_of("ContainerPort")
class PortItem(ContainerItem):
    """A Kubernetes ContainerPort, and the containers that open it."""

    containerPort: Annotated[int, FieldOf("ContainerPort", "containerPort")] = Field(
        description="The port's number; with the protocol it is what makes it the same one.", examples=[9404]
    )
    name: Annotated[str, FieldOf("ContainerPort", "name")] | None = Field(
        default=None, description="Its name, unique in the container.", examples=["metrics"]
    )


@with_fields_of("Lifecycle")
class LifecycleItem(ContainerItem):
    """A Kubernetes Lifecycle, and the containers that get it; each of its hooks is a feature of its own."""


@with_fields_of("SecurityContext")
class SecurityContextItem(ContainerItem):
    """A Kubernetes SecurityContext, and the containers that get it; each of its keys is a feature."""

    model_config = ConfigDict(json_schema_extra={OPAQUE: True})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        context = self.model_dump(exclude=_SHARED, exclude_unset=True)
        _check_together({"securityContext": context}, "containers")
        return self


class ResourcesItem(ContainerItem):
    """Requests and limits, and the containers that get them; each resource is a feature of its own."""

    requests: Annotated[dict[str, Any], FieldOf("ResourceRequirements", "requests")] = Field(
        default={},
        description="Requests by resource. That of memory is Spark's own in its container and stays.",
        examples=[{"ephemeral-storage": "10Gi"}],
    )
    limits: Annotated[dict[str, Any], FieldOf("ResourceRequirements", "limits")] = Field(
        default={},
        description="Limits by resource. One of an extended resource (a GPU) is its request too.",
        examples=[{"nvidia.com/gpu": 1}],
    )
    memoryLimit: Annotated[str, values.rule(memory_limit_error)] | None = Field(
        default=None,
        description=(
            "The limit of memory, never below its request: a Kubernetes quantity (8Gi), a size as Spark "
            "and Java "
            "write it (8g, 512m: powers of 1024), or a factor of the request (1.5x)."
        ),
        examples=["1.5x"],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.memoryLimit is not None and "memory" in self.limits:
            raise fault("memoryLimit and limits.memory exclude each other: keep one", "memoryLimit")
        _check_together({"resources": {"requests": self.requests, "limits": self.limits}}, "containers")
        return self


class ContainerFields(Model):
    """What is added beside Spark's container, and what containers get."""

    initContainers: list[InitContainerItem] = item_list(
        description=(
            "Init containers to add. They pass the restricted Pod Security Standard and have requests and "
            "limits "
            "unless they say otherwise."
        ),
        examples=[
            [{"name": "fetch", "image": "registry.example.com/fetch:1", "args": ["{{NAMESPACE}}"]}],
        ],
    )
    sidecars: list[SidecarItem] = item_list(
        description=(
            "Containers to add beside Spark's, as native sidecars (Kubernetes 1.29 and later), with the same "
            "defaults as initContainers."
        ),
        examples=[[{"name": "log-shipper", "image": "registry.example.com/log-shipper:1"}]],
    )
    ports: list[PortItem] = item_list(
        description="Ports of containers.",
        examples=[[{"name": "metrics", "containerPort": 9404}]],
    )
    lifecycle: LifecycleItem | None = Field(
        default=None,
        description=(
            "Hooks of containers, each a feature of its own. With containers: All, init containers that "
            "run to "
            "their end are left out: Kubernetes allows them none."
        ),
        examples=[{"preStop": {"sleep": {"seconds": 5}}}],
    )
    resources: ResourcesItem | None = Field(
        default=None,
        description="Requests and limits of containers. Extended resources such as GPUs belong here too.",
        examples=[{"limits": {"nvidia.com/gpu": 1}, "memoryLimit": "1.5x"}],
    )
    securityContext: SecurityContextItem | None = Field(
        default=None,
        description="The security context of containers, key by key.",
        examples=[{"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}],
    )
