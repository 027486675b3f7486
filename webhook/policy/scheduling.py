"""The fields of a policy that say where and when pods are scheduled.

Kubernetes' own shapes wherever it has one. It must never know how a feature is applied.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from webhook.policy import placeholders, values
from webhook.policy.items import MAX_INNER, Int64, Item, Model, cel, item_list
from webhook.policy.shapes import FieldOf, Shape
from webhook.policy.values import FixedLabelKey, LabelValue, fault


class TolerationItem(Item):
    """A Kubernetes Toleration."""

    model_config = cel(
        (
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            "operator Exists takes no value: remove it, or use operator: Equal",
            "value",
        ),
        (
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            "without a key, only operator: Exists is possible: it tolerates every taint",
            "",
        ),
        (
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "only goes with effect: NoExecute",
            "tolerationSeconds",
        ),
    )

    key: Annotated[str, values.rule(values.toleration_key)] | None = Field(
        default=None, description="The taint's key.", examples=["spark"]
    )
    operator: Literal["Equal", "Exists", "Lt", "Gt"] | None = Field(
        default=None, description="How the taint's value is compared; Equal by default.", examples=["Exists"]
    )
    value: LabelValue | None = Field(default=None, description="The taint's value.", examples=["etl"])
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="The taint's effect; all if absent.", examples=["NoSchedule"]
    )
    tolerationSeconds: Int64 | None = Field(
        default=None,
        description="How long a NoExecute taint is tolerated; for ever if absent.",
        examples=[600],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operator == "Exists" and self.value:
            raise fault("operator Exists takes no value: remove it, or use operator: Equal", "value")
        if self.operator in ("Lt", "Gt") and not placeholders.present(self.value or ""):
            try:
                int(self.value or "")
            except ValueError:
                raise fault(f"operator {self.operator} needs a whole number as its value", "value") from None
        if not self.key and self.operator != "Exists":
            raise fault("without a key, only operator: Exists is possible: it tolerates every taint")
        if self.tolerationSeconds is not None and self.effect != "NoExecute":
            raise fault("only goes with effect: NoExecute", "tolerationSeconds")
        return self


class SchedulingFields(Model):
    """Where and when pods are scheduled."""

    nodeSelector: dict[FixedLabelKey, LabelValue] = Field(
        default={},
        description="Labels that the pod's node must have, each a feature of its own.",
        examples=[{"pool": "spark"}],
    )
    tolerations: list[TolerationItem] = item_list(
        description="Taints that the pod tolerates; two that differ only in how long are the same one.",
        examples=[[{"key": "spark", "operator": "Exists", "effect": "NoSchedule"}]],
    )
    affinity: Annotated[dict[str, Any], Shape("Affinity")] | None = Field(
        default=None,
        description=(
            "A Kubernetes Affinity. Required node affinity is added to each of the author's terms, so that "
            "both hold; all other terms are added to the author's."
        ),
        examples=[
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64"]}]}
                        ]
                    }
                }
            }
        ],
    )
    topologySpreadConstraints: list[Annotated[dict[str, Any], Shape("TopologySpreadConstraint")]] = Field(
        default=[],
        max_length=MAX_INNER,
        description="Kubernetes TopologySpreadConstraints; the same one has the same topologyKey and "
        "whenUnsatisfiable.",
        examples=[
            [
                {
                    "topologyKey": "topology.kubernetes.io/zone",
                    "maxSkew": 1,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"spark-app-selector": "{{APP_ID}}"}},
                }
            ]
        ],
    )
    priorityClassName: Annotated[str, FieldOf("PodSpec", "priorityClassName")] | None = Field(
        default=None,
        description=(
            "The PriorityClass of the pod. The priority and preemptionPolicy that the API server has worked "
            "out for another class already are taken away with it; it works them out again."
        ),
        examples=["batch"],
    )
    schedulerName: Annotated[str, FieldOf("PodSpec", "schedulerName")] | None = Field(
        default=None, description="The scheduler that places the pod.", examples=["yunikorn"]
    )
    runtimeClassName: Annotated[str, FieldOf("PodSpec", "runtimeClassName")] | None = Field(
        default=None,
        description="The RuntimeClass of the pod; the overhead of another class is taken away with it.",
        examples=["gvisor"],
    )
    terminationGracePeriodSeconds: (
        Annotated[int, FieldOf("PodSpec", "terminationGracePeriodSeconds")] | None
    ) = Field(
        default=None,
        description="How many seconds the pod has to end after it is told to.",
        examples=[120],
    )
