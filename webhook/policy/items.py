"""The items of a policy, each one feature of a pod, checked value by value.

Attribute names are the YAML names; a model is what its author wrote, with placeholders still in it. Nothing
is coerced: a number where text stands is an error. Items are validated a second time at admission, when the
placeholders are filled in: `Item.model_validate(raw, context=values.FILLED)`. It must never read a file, and
never put a value into an error message.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, create_model, model_validator

from webhook.policy import ownership, shapes, values
from webhook.policy.shapes import FieldOf, Shape
from webhook.policy.values import (
    DnsSubdomain,
    EnvPrefix,
    FixedDnsLabel,
    RelativePath,
    Text,
    fault,
)

# Generous, and there because an API server wants to know beforehand what its checks may cost.
MAX_ITEMS, MAX_INNER = 1024, 32

Int32 = Annotated[int, Field(ge=-values.INT32_MAX - 1, le=values.INT32_MAX)]
Int64 = Annotated[int, Field(ge=-values.INT64_MAX - 1, le=values.INT64_MAX)]
MountPath = Annotated[str, values.rule(values.mount_path), ownership.free_path]
FileMode = Annotated[int, Field(ge=0, le=values.FILE_MODE_MAX)]


class OnConflict(StrEnum):
    """What happens when the pod's author has set another value."""

    KEEP = "Keep"
    REPLACE = "Replace"
    REJECT = "Reject"


# Strict validation would want the enum's member; the document holds its text.
OnConflictText = Annotated[OnConflict, Field(strict=False)]


def _containers_tag(value: Any) -> str:
    return "names" if isinstance(value, list) else "word"


Containers = Annotated[
    Annotated[Literal["Spark", "All"], Tag("word")]
    | Annotated[list[FixedDnsLabel], Field(min_length=1), Tag("names")],
    Discriminator(_containers_tag),
]


class Model(BaseModel):
    """Closed and strict: an unknown field and a value of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def cel(*rules: tuple[str, str, str]) -> ConfigDict:
    """What an API server checks of a model's objects: CEL rules, with message and the field they are about.

    They say what the model's own validators say, before an object is stored.
    """
    validations: list[Any] = [
        {"rule": rule, "message": message} | ({"fieldPath": f".{field}"} if field else {})
        for rule, message, field in rules
    ]
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": validations})


def item_list(key: str = "", **described: Any) -> Any:
    """A list of features; with a key, no two have the same one, and several appliers may add theirs.

    Args:
        described: `description` and `examples`
    """
    kind: dict[str, Any] | None
    kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if key else None
    return Field(default=[], max_length=MAX_ITEMS, json_schema_extra=kind, **described)


class Item(Model):
    """One feature of a policy."""

    onConflict: OnConflictText | None = Field(
        default=None,
        description="What happens when the pod's author has another value; the policy's rule if absent.",
        examples=["Replace"],
    )


class ContainerItem(Item):
    """A feature that goes into containers: Spark's own, all of the pod, or those named."""

    containers: Containers = Field(
        default="Spark",
        description="Spark (its own container), All (init containers and sidecars too), or a list of names.",
        examples=["All"],
    )


class MountedItem(ContainerItem):
    """What secrets and config maps have in common."""

    name: DnsSubdomain = Field(description="The object's name.", examples=["lake-credentials"])
    mountPath: MountPath = Field(description="Where it is mounted.", examples=["/etc/secrets/lake"])
    items: list[Annotated[dict[str, Any], Shape("KeyToPath")]] | None = Field(
        default=None,
        description="The keys that become files; all if absent.",
        examples=[[{"key": "a", "path": "a"}]],
    )
    defaultMode: FileMode | None = Field(
        default=None, description="The files' mode, decimal or 0o...; 0644 if absent.", examples=[288]
    )
    optional: bool | None = Field(
        default=None, description="The pod starts without it, if it does not exist.", examples=[True]
    )
    subPath: RelativePath | None = Field(
        default=None, description="One file of it, mounted at mountPath itself.", examples=["core-site.xml"]
    )
    readOnly: bool = Field(default=True, description="The mount is read-only.", examples=[False])


_M = TypeVar("_M", bound=Model)


class SecretItem(MountedItem):
    """A Secret, mounted as files; the type says which program reads them and adds its variable."""

    type: Literal["Generic", "GCPServiceAccount", "HadoopDelegationToken"] = Field(
        default="Generic",
        description=(
            "Who reads it: GCPServiceAccount sets GOOGLE_APPLICATION_CREDENTIALS, HadoopDelegationToken sets "
            "HADOOP_TOKEN_FILE_LOCATION."
        ),
        examples=["GCPServiceAccount"],
    )


class ConfigMapItem(MountedItem):
    """A ConfigMap, mounted as files."""


def with_fields_of(shape: str) -> Callable[[type[_M]], type[_M]]:
    """Adds the other fields of a Kubernetes type (kubernetes.json) to a model."""

    def extend(model: type[_M]) -> type[_M]:
        names = [name for name in shapes.fields(shape) if name != "name" and name not in model.model_fields]
        added: dict[str, Any] = {name: (Annotated[Any, FieldOf(shape, name)], None) for name in names}
        return create_model(
            model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **added
        )

    return extend


@with_fields_of("VolumeMount")
class VolumeMountItem(Model):
    """A Kubernetes VolumeMount of the volume it stands in, and the containers that get it."""

    model_config = cel(
        (
            "!has(self.subPath) || self.subPath == '' || !has(self.subPathExpr) || self.subPathExpr == ''",
            "subPath and subPathExpr exclude each other: remove one",
            "subPathExpr",
        ),
        (
            "!has(self.recursiveReadOnly) || self.recursiveReadOnly == 'Disabled' ||"
            " (has(self.readOnly) && self.readOnly)",
            "needs readOnly: true",
            "recursiveReadOnly",
        ),
    )

    mountPath: MountPath = Field(description="Where it is mounted.", examples=["/cache"])
    readOnly: bool | None = Field(default=None, description="The mount is read-only.", examples=[True])
    subPath: RelativePath | None = Field(default=None, description="A part of it.", examples=["team"])
    subPathExpr: RelativePath | None = Field(
        default=None, description="The same, with variables of the container.", examples=["$(POD_NAME)"]
    )
    recursiveReadOnly: Literal["Disabled", "IfPossible", "Enabled"] | None = Field(
        default=None, description="Mounts inside of it are read-only too.", examples=["IfPossible"]
    )
    containers: Containers = Field(
        default="Spark", description="The containers that mount it, as everywhere.", examples=["All"]
    )

    def mount(self, volume_name: str) -> dict[str, Any]:
        """The plain Kubernetes VolumeMount."""
        return {"name": volume_name, **self.model_dump(exclude={"containers"}, exclude_unset=True)}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.subPath and self.subPathExpr:
            raise fault("subPath and subPathExpr exclude each other: remove one", "subPathExpr")
        if self.recursiveReadOnly in ("IfPossible", "Enabled") and not self.readOnly:
            raise fault("needs readOnly: true", "recursiveReadOnly")
        return self


_SOURCES = frozenset(shapes.fields("Volume")) - {"name"}


@with_fields_of("Volume")
class VolumeItem(Item):
    """A Kubernetes Volume, and where it is mounted."""

    model_config = ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [shapes.exactly_one(sorted(_SOURCES))]}
    )

    name: Annotated[str, values.rule(values.dns_label), ownership.free_volume] = Field(
        description="The volume's name in the pod.", examples=["cache"]
    )
    mounts: list[VolumeMountItem] = Field(
        default=[],
        max_length=MAX_INNER,
        description="Kubernetes VolumeMounts without the name, and the containers that they are for.",
        examples=[[{"mountPath": "/cache"}]],
    )

    @property
    def source(self) -> str:
        """The name of its volume source, as `emptyDir`."""
        return next(iter(self.model_fields_set & _SOURCES))

    def volume(self) -> dict[str, Any]:
        """The plain Kubernetes Volume."""
        return {"name": self.name, self.source: getattr(self, self.source)}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        found = sorted(self.model_fields_set & _SOURCES)
        if not found:
            raise fault("has no source: add one, as in emptyDir: {}")
        if len(found) > 1:
            raise fault(f"has {len(found)} sources ({', '.join(found)}): keep one", found[1])
        return self


class EnvItem(ContainerItem):
    """A Kubernetes EnvVar; with `join`, its value is added to what the author has."""

    model_config = cel(
        (
            "!has(self.value) || !has(self.valueFrom)",
            "value and valueFrom exclude each other: remove one",
            "valueFrom",
        ),
        (
            "!has(self.join) || (has(self.value) && self.value != '')",
            "join needs a value: only a literal can be joined to the author's",
            "join",
        ),
    )

    name: Annotated[str, values.rule(values.env_name), ownership.free_env] = Field(
        description="The variable's name.", examples=["STAGE"]
    )
    value: Text | None = Field(default=None, description="Its literal value.", examples=["prod"])
    valueFrom: Annotated[dict[str, Any], Shape("EnvVarSource")] | None = Field(
        default=None,
        description="Where its value comes from, instead.",
        examples=[{"secretKeyRef": {"name": "db", "key": "password"}}],
    )
    join: Text | None = Field(
        default=None,
        description=(
            "A separator: the value is joined to the author's literal one, once, instead of competing."
        ),
        examples=[":"],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.value is not None and self.valueFrom is not None:
            raise fault("value and valueFrom exclude each other: remove one", "valueFrom")
        if self.join is not None and not self.value:
            raise fault("join needs a value: only a literal can be joined to the author's", "join")
        return self


class EnvFromItem(ContainerItem):
    """A Kubernetes EnvFromSource."""

    model_config = cel(
        (
            "has(self.configMapRef) != has(self.secretRef)",
            "needs exactly one of configMapRef and secretRef",
            "",
        )
    )

    prefix: EnvPrefix | None = Field(
        default=None, description="Put before the name of each variable.", examples=["LAKE_"]
    )
    configMapRef: Annotated[dict[str, Any], Shape("ConfigMapEnvSource")] | None = Field(
        default=None, description="The ConfigMap.", examples=[{"name": "common-env"}]
    )
    secretRef: Annotated[dict[str, Any], Shape("SecretEnvSource")] | None = Field(
        default=None, description="Or the Secret.", examples=[{"name": "db"}]
    )

    @model_validator(mode="after")
    def _one_reference(self) -> Self:
        if (self.configMapRef is None) == (self.secretRef is None):
            raise fault("needs exactly one of configMapRef and secretRef")
        return self


class HadoopItem(ContainerItem):
    """The Hadoop configuration, as Spark itself would mount it."""

    configMap: DnsSubdomain = Field(
        description="The ConfigMap, mounted at /opt/hadoop/conf.", examples=["hadoop-conf"]
    )


class ImagePullSecretItem(Item):
    """The name of a Secret with registry credentials."""

    name: DnsSubdomain = Field(description="The Secret's name.", examples=["company-registry"])
