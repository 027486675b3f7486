"""The fields of a policy that say where and how pods are scheduled and run.

Kubernetes' own shapes wherever it has one. It must never know how a feature is applied.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from webhook.policy import placeholders, values
from webhook.policy.items import Int64, Item, Model, cel, item_list
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

    key: Annotated[str, values.rule(values.toleration_key)] | None = None
    operator: Literal["Equal", "Exists", "Lt", "Gt"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: Int64 | None = None

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
    """Where and how pods are scheduled and run."""

    nodeSelector: dict[FixedLabelKey, LabelValue] = Field(default={})
    tolerations: list[TolerationItem] = item_list()
