"""terminationGracePeriodSeconds: how long the pod may take to end."""

from __future__ import annotations

from webhook.partial import of_spec
from webhook.policy.scheduling import SchedulingFields
from webhook.steps.base import field_step

STEP = field_step(
    SchedulingFields,
    "terminationGracePeriodSeconds",
    lambda value: of_spec({"terminationGracePeriodSeconds": value}),
)
