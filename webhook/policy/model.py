"""The policy model: the documents of the group sparkwebhook.dev, checked value by value.

Attribute names are the YAML names; a model is what its author wrote, with placeholders still in it. It must
never read a file, and never put a value into an error message.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from webhook.policy import placeholders, values
from webhook.policy.conditions import MAX_CONDITIONS, Condition
from webhook.policy.items import MAX_INNER, MAX_ITEMS, Int32, Model, OnConflict, OnConflictText, cel
from webhook.policy.role_block import RoleBlock
from webhook.policy.values import (
    FixedDnsLabel,
    FixedDnsSubdomain,
    FixedLabelKey,
    FixedLabelValue,
    Text,
    fault,
)

API_VERSION = "sparkwebhook.dev/v1alpha1"
CLUSTER_KIND, NAMESPACED_KIND = "ClusterSparkPodPolicy", "SparkPodPolicy"


class Requirement(Model):
    """One of a selector's matchExpressions."""

    model_config = cel(
        (
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "operators In and NotIn need at least one value, Exists and DoesNotExist take none",
            "values",
        )
    )

    key: FixedLabelKey = Field(description="The label.", examples=["stage"])
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="How its value is compared.", examples=["In"]
    )
    values: list[FixedLabelValue] = Field(
        default=[], description="For In and NotIn: the values.", examples=[["prod"]]
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operator in ("In", "NotIn"):
            if not self.values:
                raise fault(f"operator {self.operator} needs at least one value", "values")
        elif self.values:
            raise fault(f"operator {self.operator} takes no values: remove them", "values")
        return self


class LabelSelector(Model):
    """A Kubernetes LabelSelector; an empty one selects everything."""

    matchLabels: dict[FixedLabelKey, FixedLabelValue] = Field(
        default={}, description="Labels with these values.", examples=[{"team": "lake"}]
    )
    matchExpressions: list[Requirement] = Field(
        default=[],
        max_length=MAX_INNER,
        description="Requirements of labels: key, operator, values.",
        examples=[[{"key": "stage", "operator": "In", "values": ["prod"]}]],
    )


class Match(Model):
    """Which pods a policy is for; what is absent does not restrict."""

    namespaceSelector: LabelSelector | None = Field(
        default=None,
        description=(
            "The namespaces of a ClusterSparkPodPolicy, by their labels; all that opted in if absent."
        ),
        examples=[{"matchLabels": {"stage": "prod"}}],
    )
    podSelector: LabelSelector | None = Field(
        default=None,
        description="The pods, by the labels that their author has set.",
        examples=[{"matchLabels": {"team": "lake"}}],
    )
    conditions: list[Condition] = Field(
        default=[],
        max_length=MAX_CONDITIONS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        description=(
            "CEL expressions that must all be true, asked where the selectors match. They see the pod as its "
            "author sent it, so far as that can be told."
        ),
        examples=[
            [{"name": "by-airflow", "expression": "request.userInfo.username.endsWith(':airflow')"}],
        ],
    )

    @model_validator(mode="after")
    def _names(self) -> Self:
        seen: set[str] = set()
        for index, condition in enumerate(self.conditions):
            if condition.name in seen:
                raise fault("another condition has this name: rename one", "conditions", index, "name")
            seen.add(condition.name)
        return self


_DRIVER_ONLY = ("kubernetesCredentials", "sparkConf")
_NOT_FOR_DRIVERS = ("common", "executor")
_NO_NAMESERVERS = (
    "None needs nameservers in dnsConfig, in the same block or in common, and no placeholder in them"
)
_MOVE = "only drivers use this: state it in the block driver"


def _for_drivers_only() -> ConfigDict:
    rules = [
        (f"!has(self.{block}) || !has(self.{block}.{field})", _MOVE, f"{block}.{field}")
        for block in _NOT_FOR_DRIVERS
        for field in _DRIVER_ONLY
    ]
    return cel(*rules)


# Shared, since nothing here is ever changed; pydantic would copy a default for every policy.
_NOTHING, _EVERYTHING = RoleBlock(), Match()


class PolicySpec(Model):
    """What a policy asks for, how strongly, and where."""

    model_config = _for_drivers_only()

    priority: Int32 = Field(
        default=0,
        description="Higher goes first; of equal ones cluster policies before namespaced ones, then by name.",
        examples=[10],
    )
    mandatory: bool = Field(
        default=False, description="A pod's exclude annotation does not count.", examples=[True]
    )
    onConflict: OnConflictText = Field(
        default=OnConflict.KEEP,
        description=(
            "When the pod's author has another value: Keep it and say so, Replace it (only the keys that the "
            "policy states), or Reject a driver. Executors are rejected only if the policy is mandatory."
        ),
        examples=["Replace"],
    )
    atomic: bool = Field(
        default=False, description="All of the policy is applied to a pod, or nothing of it.", examples=[True]
    )
    match: Match = Field(
        default_factory=lambda: _EVERYTHING,
        description="Which pods the policy is for; what is absent does not restrict.",
        examples=[{"podSelector": {"matchLabels": {"team": "lake"}}}],
    )
    sparkConf: dict[Annotated[str, Field(min_length=1)], Text] = Field(
        default={},
        max_length=MAX_ITEMS,
        description=(
            "The same in Spark's own words, for pods of both roles: spark.kubernetes.{driver,executor}."
            "{secrets,secretKeyRef,volumes,label,annotation,node.selector}.*, spark.kubernetes.driverEnv.*, "
            "spark.executorEnv.* and others (docs/reference.md has them all)."
        ),
        examples=[{"spark.kubernetes.executor.secrets.lake": "/etc/secrets/lake"}],
    )
    common: RoleBlock = Field(
        default_factory=lambda: _NOTHING,
        description="What drivers and executors get.",
        examples=[{"labels": {"team": "lake"}}],
    )
    driver: RoleBlock = Field(
        default_factory=lambda: _NOTHING,
        description="What drivers get; an item wins over the same one of common.",
        examples=[{"nodeSelector": {"pool": "drivers"}}],
    )
    executor: RoleBlock = Field(
        default_factory=lambda: _NOTHING,
        description="What executors get; an item wins over the same one of common.",
        examples=[{"tolerations": [{"key": "spot", "operator": "Exists"}]}],
    )

    @model_validator(mode="after")
    def _roles(self) -> Self:
        for block in _NOT_FOR_DRIVERS:
            for field in _DRIVER_ONLY:
                if getattr(getattr(self, block), field):
                    raise fault(_MOVE, block, field)
        for name in ("common", "driver", "executor"):
            asking: RoleBlock = getattr(self, name)
            configs = (asking.dnsConfig or {}, self.common.dnsConfig or {})
            servers = next((config["nameservers"] for config in configs if config.get("nameservers")), [""])
            # Without one the pod would be invalid, so none of them may be skipped for want of a value.
            certain = all(server and not placeholders.present(server) for server in servers)
            if asking.dnsPolicy == "None" and not certain:
                raise fault(_NO_NAMESERVERS, name, "dnsPolicy")
        return self


class Metadata(BaseModel):
    """The part of an object's metadata that we read; what the API server adds to it is passed over."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    name: FixedDnsSubdomain
    namespace: FixedDnsLabel | None = None
    labels: dict[FixedLabelKey, FixedLabelValue] = {}
    # Not read for placeholders: kubectl keeps the applied document in an annotation.
    annotations: dict[Annotated[str, values.literal(values.annotation_key)], str] = {}


class Policy(Model):
    """A policy document of either kind."""

    apiVersion: Literal["sparkwebhook.dev/v1alpha1"]
    kind: Literal["ClusterSparkPodPolicy", "SparkPodPolicy"]
    metadata: Metadata
    spec: PolicySpec = PolicySpec()
    # Of an object that was read from a cluster; never looked at.
    status: dict[str, Any] = Field(default={})

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """The namespace that a SparkPodPolicy is for; None for the cluster's kind.

        Without one (`lint` refuses that) it is "", which is no pod's: never None, which is everybody's.
        """
        return None if self.kind == CLUSTER_KIND else self.metadata.namespace or ""
